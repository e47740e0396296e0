"""Measures the profile of a day's file, one column at a time."""

from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from ratchet.contracts.checks import counts_values
from ratchet.contracts.columns import LISTS, Column
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.pipeline import PipelineSpec
from tasks.validate import grid
from tasks.validate.prediction import Labels
from tasks.validate.profile import (
    KEPT_HASHES,
    KEPT_VALUES,
    ColumnProfile,
    KeyProfile,
    Profile,
    most_frequent,
    value_key,
    values_of,
)
from tasks.validate.sketch import HASH_BITS, sketch
from tasks.validate.times import Bounds

Hashes = npt.NDArray[np.uint64]

_MIX = np.uint64(0x9E3779B97F4A7C15)
"""The hash of several columns is a polynomial of theirs in this odd number, modulo 2**64."""


def measure(path: Path, spec: PipelineSpec, bounds: Mapping[str, Bounds] | None = None) -> Profile:
    """Measure the profile of a day's file. Reads one column at a time, so that memory needs to hold only one.

    bounds: when the day begins and ends, by time column, as its values are; see `times.bounds`.
    """
    columns: dict[str, ColumnProfile] = {}
    keys = _Keys(spec)
    labels = Labels(pl.read_parquet(path, columns=[spec.label])[spec.label], spec.train.objective)
    for name, column in spec.columns.items():
        if column.derived:
            continue
        frame = pl.read_parquet(path, columns=[name, column.weights] if column.weights else [name])
        found = _measure(frame[name], column)
        if column.weights:
            found = found.model_copy(update={"misshapen": _unlike(frame[name], frame[column.weights])})
        if bounds and name in bounds:
            found = found.model_copy(update={"outside": _outside(frame[name], bounds[name])})
        if column.is_feature and column.type not in LISTS:
            found = found.model_copy(update={"predictive": labels.predicted_by(frame[name], column)})
        columns[name] = found
        keys.add(frame[name])
        if column.is_list:
            values = frame[name].drop_nulls().explode().drop_nulls()
            plain = ColumnProfile(rows=len(values), type=LISTS[column.type])
            columns[values_of(name)] = plain.model_copy(update=_values(values, column))
    label = columns[spec.label]
    rows = next((column.rows for column in columns.values()), 0)
    whole, of_keys = keys.found()
    return Profile(
        rows=rows,
        labelled=label.present,
        duplicates=whole.repeats,
        hashes=whole.hashes,
        keys=of_keys,
        columns=columns,
    )


class _Keys:
    """The hashes of the rows and of each key, column by column. Memory: eight bytes for each row and key."""

    def __init__(self, spec: PipelineSpec) -> None:
        keys = {name: [name] for name in spec.with_role("id")}
        keys |= {key.name: list(key.columns) for key in spec.validate_.unique}
        self._columns: dict[str, list[str]] = {"": list(spec.source_columns), **keys}
        self._hashes: dict[str, Hashes] = {}
        self._missing: dict[str, npt.NDArray[np.bool_]] = {}

    def add(self, values: pl.Series) -> None:
        """The next column."""
        hashes = values.to_frame().hash_rows().to_numpy()
        missing = values.is_null().to_numpy() if values.null_count() else None
        for key, columns in self._columns.items():
            if values.name in columns:
                before = self._hashes.get(key)
                self._hashes[key] = hashes if before is None else before * _MIX + hashes
                if key and missing is not None:
                    self._missing[key] = self._missing.get(key, False) | missing

    def found(self) -> tuple[KeyProfile, dict[str, KeyProfile]]:
        """(of the rows, of each key). A row that lacks a part of a key is not one of its rows."""
        measured = {}
        for key in self._columns:
            hashes, missing = self._hashes[key], self._missing.get(key)
            present = hashes if missing is None else hashes[~missing]
            distinct = pl.Series(present).unique()
            repeats = len(present) - len(distinct)
            measured[key] = KeyProfile(rows=len(present), repeats=repeats, hashes=sketch(distinct.to_numpy()))
        return measured.pop(""), measured


def _outside(moments: pl.Series, bounds: Bounds) -> int:
    """The rows outside of the day. A date is the day itself, or outside of it."""
    first, end = (moment.date() for moment in bounds) if moments.dtype == pl.Date else bounds
    return int(((moments < first) | (moments >= end)).sum())


def parts(spec: PipelineSpec) -> dict[str, dict[str, str]]:
    """The settings of the columns that a profile depends on."""
    return {
        name: {
            "type": column.type,
            "role": column.role,
            "values": str(counts_values(column)),
            **({"dimension": str(column.dimension)} if column.dimension else {}),
            **({"weights": column.weights} if column.weights else {}),
            **({"in": digest_of(list(column.allowed))} if column.allowed is not None else {}),
        }
        for name, column in spec.columns.items()
        if not column.derived
    }


def other_parts(spec: PipelineSpec) -> dict[str, str]:
    """The other keys that a profile depends on."""
    keys = ", ".join(sorted(f"({key.name})" for key in spec.validate_.unique))
    return {"config.train.objective": spec.train.objective, **({"config.validate.unique": keys} if keys else {})}


def _measure(series: pl.Series, column: Column) -> ColumnProfile:
    found = _by_type(series, column)
    return found.model_copy(update={"type": column.type})


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
    return plain.model_copy(update=_values(series, column)) if counts_values(column) else plain


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
    if counts_values(column):
        return found.model_copy(update=_values(present, column))
    if column.role in {"numeric", "label", "weight"}:
        return found.model_copy(update={"histogram": grid.count(present.to_numpy().astype(np.float64, copy=False))})
    return found


def _values(series: pl.Series, column: Column) -> dict[str, object]:
    """The counts of values, those that are not allowed, and the hashes of distinct values."""
    counts = series.drop_nulls().alias("value").value_counts(name="rows")
    hashes = (counts["value"].hash() // 2 ** (64 - HASH_BITS)).bottom_k(KEPT_HASHES).sort()
    kept, dropped = _top(counts)
    found: dict[str, object] = {"values": kept, "others": dropped, "hashes": tuple(sorted(set(hashes.to_list())))}
    if column.allowed is not None:
        # By value and before the rare ones are dropped: a forbidden value is found however rare it is.
        strange = counts.filter(~pl.col("value").is_in(allowed_values(column, series.dtype).implode()))
        found |= {"forbidden": _top(strange)[0], "forbidden_rows": int(strange["rows"].sum())}
    return found


def allowed_values(column: Column, type_: pl.DataType) -> pl.Series:
    """The allowed values as the column holds them: 1 in a float column is 1.0. type_: that of the column."""
    is_float = column.type == "float64"
    values = [float(one) if is_float and isinstance(one, (int, float)) else one for one in column.allowed or ()]
    return pl.Series(values, dtype=type_)


def _top(counts: pl.DataFrame) -> tuple[dict[str, int], int]:
    """The most frequent values, and the rows of the others."""
    top = counts.top_k(KEPT_VALUES * 2, by="rows") if counts.height > KEPT_VALUES * 2 else counts
    kept, dropped = most_frequent(dict(zip(map(value_key, top["value"]), top["rows"], strict=True)))
    return kept, dropped + int(counts["rows"].sum()) - int(top["rows"].sum())


def _number(value: object) -> float | int | None:
    return value if isinstance(value, (int, float)) else None


def _text(value: object) -> str | None:
    return value.isoformat() if isinstance(value, (date, datetime)) else None
