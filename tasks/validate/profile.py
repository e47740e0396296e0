"""The profile of a day's rows. Profiles can be added: that of a window is the sum of those of its days."""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
from pydantic import Field

from ratchet.contracts.columns import LISTS, Column
from ratchet.contracts.document import Document
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.pipeline import PipelineSpec
from tasks.validate import grid

KEPT_VALUES = 1000
KEPT_HASHES = 128
_HASH_BITS = 53
_IN_LISTS = "[]"
_BATCH = 1 << 16
"""Rows that are hashed at once."""


class ColumnProfile(Document):
    """The profile of one column."""

    rows: int = Field(0, description="All rows, also those without a value.")
    missing: int = Field(0, description="Rows without a value; NaN counts as missing.")
    infinite: int = Field(0, description="Rows with an infinite number; of vectors and weights, also with NaN.")
    misshapen: int = Field(
        0,
        description="Rows whose vector has another length than declared, or whose list has another one than its "
        "weights.",
    )
    low: float | int | str | None = Field(None, description="The least finite value; times as ISO text.")
    high: float | int | str | None = Field(None, description="The greatest finite value.")
    histogram: dict[int, int] = Field(
        default_factory=dict,
        description="Counts of finite numbers, by bin of the grid; of vectors of their Euclidean length, of lists of "
        "their number of values.",
    )
    values: dict[str, int] = Field(default_factory=dict, description="Counts of the most frequent values, in order.")
    others: int = Field(0, description="Rows with values that are not in `values`.")
    forbidden: dict[str, int] = Field(
        default_factory=dict, description="Counts of the most frequent values that `in` does not allow."
    )
    forbidden_rows: int = Field(0, description="All rows with a value that `in` does not allow.")
    repeats: int = Field(0, description="Rows of an id column whose value an earlier row of the same day has.")
    type: str = Field("", description="The declared type; empty in profiles of before it was kept.")
    hashes: tuple[int, ...] = Field(
        (), description="The smallest hashes of distinct values, which estimate the number of distinct values."
    )

    @property
    def present(self) -> int:
        """Rows with a value."""
        return self.rows - self.missing

    @property
    def missing_share(self) -> float:
        """The share of missing rows."""
        return self.missing / self.rows if self.rows else 0.0

    @property
    def distinct(self) -> int:
        """The number of distinct values: exact below 128, else within about 9 %."""
        if len(self.hashes) < KEPT_HASHES:
            return len(self.hashes)
        return round((KEPT_HASHES - 1) * (1 << _HASH_BITS) / self.hashes[-1])


class Profile(Document):
    """The profile of a day, or the sum of several."""

    rows: int = 0
    labelled: int = 0
    duplicates: int = Field(0, description="Rows that are equal, in all columns, to an earlier row of the same day.")
    columns: dict[str, ColumnProfile] = Field(
        default_factory=dict, description="By name; `NAME[]` is of the values in the lists of a column."
    )


def values_of(name: str) -> str:
    """The name under which a profile has the values in the lists of a column."""
    return f"{name}{_IN_LISTS}"


def column_of(name: str) -> str:
    """The column that a name in a profile is of."""
    return name.removesuffix(_IN_LISTS)


def total(profiles: Iterable[Profile]) -> Profile:
    """The sum of profiles. A column may be missing in some of them."""
    days = list(profiles)
    names = dict.fromkeys(name for day in days for name in day.columns)
    return Profile(
        rows=sum(day.rows for day in days),
        labelled=sum(day.labelled for day in days),
        duplicates=sum(day.duplicates for day in days),
        columns={name: column_total([day.columns[name] for day in days if name in day.columns]) for name in names},
    )


def column_total(profiles: Sequence[ColumnProfile]) -> ColumnProfile:
    """The sum of a column's profiles. Counts are exact; values beyond the KEPT_VALUES most frequent are `others`."""
    values: Counter[str] = Counter()
    bins: Counter[int] = Counter()
    hashes: set[int] = set()
    for day in profiles:
        values.update(day.values)
        bins.update(day.histogram)
        hashes.update(day.hashes)
    kept, dropped = _most_frequent(values)
    types = {day.type for day in profiles}
    return ColumnProfile(
        rows=sum(day.rows for day in profiles),
        missing=sum(day.missing for day in profiles),
        infinite=sum(day.infinite for day in profiles),
        misshapen=sum(day.misshapen for day in profiles),
        low=_least([day.low for day in profiles]),
        high=_greatest([day.high for day in profiles]),
        histogram=dict(sorted(bins.items())),
        values=kept,
        others=sum(day.others for day in profiles) + dropped,
        repeats=sum(day.repeats for day in profiles),
        type=types.pop() if len(types) == 1 else "",
        hashes=tuple(sorted(hashes)[:KEPT_HASHES]),
    )


def measure(path: Path, spec: PipelineSpec) -> Profile:
    """Measure the profile of a day's file. Reads one column at a time, so that memory needs to hold only one."""
    columns = {}
    for name, column in spec.columns.items():
        if column.derived:
            continue
        frame = pl.read_parquet(path, columns=[name, column.weights] if column.weights else [name])
        columns[name] = _measure(frame[name], column)
        if column.weights:
            columns[name] = columns[name].model_copy(update={"misshapen": _unlike(frame[name], frame[column.weights])})
        if column.is_list:
            values = frame[name].drop_nulls().explode().drop_nulls()
            plain = ColumnProfile(rows=len(values), type=LISTS[column.type])
            columns[values_of(name)] = plain.model_copy(update=_values(values, column))
    label = columns[spec.label] if spec.label in columns else ColumnProfile()
    rows = next((column.rows for column in columns.values()), 0)
    labelled = label.present if label.rows else rows
    return Profile(rows=rows, labelled=labelled, duplicates=_duplicates(path), columns=columns)


def _duplicates(path: Path) -> int:
    """The rows that repeat an earlier one. Memory: eight bytes for each row, and one batch of rows."""
    with pq.ParquetFile(path) as file:
        hashes = [pl.DataFrame(pl.from_arrow(batch)).hash_rows() for batch in file.iter_batches(_BATCH)]
    found = pl.concat(hashes) if hashes else pl.Series([], dtype=pl.UInt64)
    return len(found) - found.n_unique()


def parts(spec: PipelineSpec) -> dict[str, dict[str, str]]:
    """The settings of the columns that a profile depends on."""
    return {
        name: {
            "type": column.type,
            "role": column.role,
            "values": str(_counts_values(column)),
            **({"dimension": str(column.dimension)} if column.dimension else {}),
            **({"weights": column.weights} if column.weights else {}),
            **({"in": digest_of(list(column.allowed))} if column.allowed is not None else {}),
        }
        for name, column in spec.columns.items()
        if not column.derived
    }


def _counts_values(column: Column) -> bool:
    return column.role == "categorical" or column.type == "bool" or column.allowed is not None


def _measure(series: pl.Series, column: Column) -> ColumnProfile:
    found = _by_type(series, column)
    repeats = found.present - series.drop_nulls().n_unique() if column.role == "id" else 0
    return found.model_copy(update={"type": column.type, "repeats": repeats})


def _unlike(values: pl.Series, weights: pl.Series) -> int:
    """The rows whose list has another number of values than of weights; a missing one has none."""
    return int((values.list.len().fill_null(0) != weights.list.len().fill_null(0)).sum())


def _lists(series: pl.Series, column: Column) -> ColumnProfile:
    """Lists by their number of values, vectors by their Euclidean length, weights by the least and the greatest."""
    present = series.drop_nulls()
    found = ColumnProfile(rows=len(series), missing=series.null_count())
    sizes = present.list.len()
    if column.type != "list<float64>":
        histogram = grid.count(sizes.to_numpy().astype(np.float64))
        counted = _values(present.explode().drop_nulls(), column) if column.allowed is not None else {}
        update: dict[str, object] = {key: counted[key] for key in counted if key.startswith("forbidden")}
        update |= {"low": _number(sizes.min()), "high": _number(sizes.max()), "histogram": histogram}
        return found.model_copy(update=update)
    finite = present.list.eval(pl.element().is_finite().fill_null(value=False)).list.all()
    infinite = len(present) - int(finite.sum())
    misshapen = int((sizes != column.dimension).sum()) if column.dimension else 0
    if column.role == "numeric":
        numbers = present.filter(finite).list.eval(pl.element().pow(2)).list.sum().sqrt()
        histogram = grid.count(numbers.to_numpy().astype(np.float64, copy=False))
    else:
        numbers, histogram = present.explode().drop_nulls().drop_nans(), {}
    low, high = _number(numbers.min()), _number(numbers.max())
    return found.model_copy(
        update={"infinite": infinite, "misshapen": misshapen, "low": low, "high": high, "histogram": histogram}
    )


def _by_type(series: pl.Series, column: Column) -> ColumnProfile:
    if column.type in LISTS:
        return _lists(series, column)
    if column.type in {"int64", "float64"}:
        return _numbers(series, column)
    low, high = (None, None) if column.type in {"string", "bool"} else (series.min(), series.max())
    plain = ColumnProfile(rows=len(series), missing=series.null_count(), low=_text(low), high=_text(high))
    return plain.model_copy(update=_values(series, column)) if _counts_values(column) else plain


def _numbers(series: pl.Series, column: Column) -> ColumnProfile:
    present = series.drop_nulls()
    infinite = 0
    if present.dtype.is_float():
        present = present.drop_nans()
        if not bool(present.is_finite().all()):
            infinite = int(present.is_infinite().sum())
            present = present.filter(present.is_finite())
    missing = len(series) - len(present) - infinite
    low, high = present.min(), present.max()
    found = ColumnProfile(rows=len(series), missing=missing, infinite=infinite, low=_number(low), high=_number(high))
    if _counts_values(column):
        return found.model_copy(update=_values(present, column))
    if column.role in {"numeric", "label", "weight"}:
        return found.model_copy(update={"histogram": grid.count(present.to_numpy().astype(np.float64, copy=False))})
    return found


def _values(series: pl.Series, column: Column) -> dict[str, object]:
    """The counts of values, those that are not allowed, and the hashes of distinct values."""
    counts = series.drop_nulls().alias("value").value_counts(name="rows")
    hashes = (counts["value"].hash() // 2 ** (64 - _HASH_BITS)).bottom_k(KEPT_HASHES).sort()
    kept, dropped = _top(counts)
    found: dict[str, object] = {"values": kept, "others": dropped, "hashes": tuple(sorted(set(hashes.to_list())))}
    if column.allowed is not None:
        # By value and before the rare ones are dropped: a forbidden value is found however rare it is.
        allowed = pl.Series([_cast(value, column) for value in column.allowed], dtype=series.dtype)
        strange = counts.filter(~pl.col("value").is_in(allowed.implode()))
        found |= {"forbidden": _top(strange)[0], "forbidden_rows": int(strange["rows"].sum())}
    return found


def _cast(value: object, column: Column) -> object:
    """An allowed value as the column holds it: 1 in a float column is 1.0."""
    return float(value) if column.type == "float64" and isinstance(value, (int, float)) else value


def _top(counts: pl.DataFrame) -> tuple[dict[str, int], int]:
    """The most frequent values, and the rows of the others."""
    top = counts.top_k(KEPT_VALUES * 2, by="rows") if counts.height > KEPT_VALUES * 2 else counts
    kept, dropped = _most_frequent(dict(zip(map(value_key, top["value"]), top["rows"], strict=True)))
    return kept, dropped + int(counts["rows"].sum()) - int(top["rows"].sum())


def value_key(value: object) -> str:
    """The key of a value in `values`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _most_frequent(values: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """The values to keep, ties in the order of names, and the number of rows of the others."""
    kept = dict(heapq.nsmallest(KEPT_VALUES, values.items(), key=lambda item: (-item[1], item[0])))
    return kept, sum(values.values()) - sum(kept.values())


def _number(value: object) -> float | int | None:
    return value if isinstance(value, (int, float)) else None


def _text(value: object) -> str | None:
    return value.isoformat() if isinstance(value, (date, datetime)) else None


def _least(values: list[Any]) -> Any:
    return min((value for value in values if value is not None), default=None)


def _greatest(values: list[Any]) -> Any:
    return max((value for value in values if value is not None), default=None)
