"""The profile of a day's rows. Profiles can be added: that of a window is the sum of those of its days."""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import Field

from ratchet.contracts.document import Document
from tasks.validate import grid
from tasks.validate.sketch import HASH_BITS, Sketch, least

KEPT_VALUES = 1000
KEPT_HASHES = 128
_IN_LISTS = "[]"


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
    repeats: int = Field(0, description="Only in profiles of before, see `Profile.keys`.")
    outside: int | None = Field(
        None, description="Rows of the time column outside of the day; None if that was not measured."
    )
    predictive: float | None = Field(
        None,
        description="How well the column alone predicts the label on a sample of the day, from 0 to 1, see "
        "tasks.validate.prediction. None if that was not measured, and in the sum of several days.",
    )
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
        return round((KEPT_HASHES - 1) * (1 << HASH_BITS) / self.hashes[-1])

    @property
    def distinct_values(self) -> int | None:
        """The same; None of a column whose values are not counted."""
        return self.distinct if self.hashes else None

    @property
    def median(self) -> float | None:
        """The median of its numbers, to 1.6 %; None without numbers."""
        return grid.median(self.histogram) if self.histogram else None


class KeyProfile(Document):
    """The rows, or a key of them."""

    rows: int = Field(0, description="Rows with a value in each column of the key.")
    repeats: int = Field(0, description="Rows with a key that an earlier row of the same day has.")
    hashes: Sketch = Field((), description="The smallest hashes of its distinct values.")


class Profile(Document):
    """The profile of a day, or the sum of several."""

    rows: int = 0
    labelled: int = 0
    duplicates: int = Field(0, description="Rows that are equal, in all columns, to an earlier row of the same day.")
    hashes: Sketch = Field((), description="The smallest hashes of the distinct rows; empty in profiles of before.")
    keys: dict[str, KeyProfile] = Field(
        default_factory=dict, description="By the columns of a key, as in `carrier, flight`; an id is a key too."
    )
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
    keys = dict.fromkeys(name for day in days for name in day.keys)
    return Profile(
        rows=sum(day.rows for day in days),
        labelled=sum(day.labelled for day in days),
        duplicates=sum(day.duplicates for day in days),
        hashes=least(day.hashes for day in days),
        keys={name: _key_total([day.keys[name] for day in days if name in day.keys]) for name in keys},
        columns={name: column_total([day.columns[name] for day in days if name in day.columns]) for name in names},
    )


def _key_total(keys: Sequence[KeyProfile]) -> KeyProfile:
    return KeyProfile(
        rows=sum(key.rows for key in keys),
        repeats=sum(key.repeats for key in keys),
        hashes=least(key.hashes for key in keys),
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
    kept, dropped = most_frequent(values)
    types = {day.type for day in profiles}
    outside = [day.outside for day in profiles if day.outside is not None]
    return ColumnProfile(
        rows=sum(day.rows for day in profiles),
        missing=sum(day.missing for day in profiles),
        infinite=sum(day.infinite for day in profiles),
        misshapen=sum(day.misshapen for day in profiles),
        low=_lowest([day.low for day in profiles]),
        high=_highest([day.high for day in profiles]),
        histogram=dict(sorted(bins.items())),
        values=kept,
        others=sum(day.others for day in profiles) + dropped,
        repeats=sum(day.repeats for day in profiles),
        outside=sum(outside) if len(outside) == len(profiles) else None,
        type=types.pop() if len(types) == 1 else "",
        hashes=tuple(sorted(hashes)[:KEPT_HASHES]),
    )


def value_key(value: object) -> str:
    """The key of a value in `values`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def most_frequent(values: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """The values to keep, ties in the order of names, and the number of rows of the others."""
    kept = dict(heapq.nsmallest(KEPT_VALUES, values.items(), key=lambda item: (-item[1], item[0])))
    return kept, sum(values.values()) - sum(kept.values())


def _lowest(values: list[Any]) -> Any:
    return min((value for value in values if value is not None), default=None)


def _highest(values: list[Any]) -> Any:
    return max((value for value in values if value is not None), default=None)
