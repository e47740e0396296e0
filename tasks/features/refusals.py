"""What a training cannot learn from, found before it starts: constant labels, empty columns, numbers that blur."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ratchet.contracts.errors import DataRejected
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.model.hashing import MISSING, Ids
from ratchet.model.list_columns import lists, vectors
from tasks.features.statistics import SMALLEST_SPREAD, Moments, merge, moments

_EXACT = 2**53
"""Whole numbers up to here are float64 to the last digit."""


def refuse_unlearnable(
    spec: PipelineSpec, days: Sequence[date], *, label: Moments, numeric: Sequence[Moments], counts: Sequence[Ids]
) -> None:
    """Raise DataRejected where no model can learn from the training days.

    label, numeric: their moments over all these days. counts: those of `statistics.count_ids`, day by day.
    """
    where = f"the training days {days[0]} to {days[-1]}" if len(days) > 1 else f"the training day {days[0]}"
    _refuse_label(spec, label, where)
    for name, column in zip(_numbers(spec), numeric, strict=True):
        if not column.count:
            raise _empty(spec, name, where)
        if spec.columns[name].type == "int64" and 0 < column.m2 / column.count <= (SMALLEST_SPREAD * column.mean) ** 2:
            raise _blurred(name, where, column.mean)
    for name in _empty_categories(spec, counts):
        raise _empty(spec, name, where)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeNumbers:
    """Where the whole numbers of a column lie. apart: of their distances from `low`; None where some lie near 0."""

    low: int
    high: int
    apart: Moments | None

    @classmethod
    def of(cls, values: NDArray[np.int64]) -> "WholeNumbers | None":
        """Of a part of the rows; None without a value."""
        if not len(values):
            return None
        low, high = int(values.min()), int(values.max())
        if max(abs(low), abs(high)) <= _EXACT // 2:
            return cls(low=low, high=high, apart=None)
        apart = values.astype(np.uint64) - np.int64(low).astype(np.uint64)  # both wrap around: the difference is exact
        return cls(low=low, high=high, apart=moments(apart.astype(np.float64)))

    def __add__(self, other: "WholeNumbers") -> "WholeNumbers":
        """Of both parts."""
        low, high, apart = min(self.low, other.low), max(self.high, other.high), None
        if self.apart is not None and other.apart is not None:
            apart = merge(
                part.apart.model_copy(update={"mean": part.apart.mean + float(part.low - low)})
                for part in (self, other)
                if part.apart is not None
            )
        return WholeNumbers(low=low, high=high, apart=apart)

    def refuse_blurred(self, name: str, where: str) -> None:
        """Raise DataRejected if they are so large and so close together that a float64 does not tell them apart."""
        if self.apart is None or max(abs(self.low), abs(self.high)) <= _EXACT:
            return
        middle = self.low + self.apart.mean
        if 0 < (self.apart.m2 / self.apart.count) ** 0.5 <= SMALLEST_SPREAD * abs(middle):
            raise _blurred(name, where, middle)


def refuse_blurred(values: pd.Series, where: str) -> None:
    """Raise DataRejected for whole numbers so large and so close together that a float64 does not tell them apart."""
    whole = pd.api.types.is_integer_dtype(values.dtype)
    found = WholeNumbers.of(values.dropna().to_numpy(np.int64)) if whole else None
    if found is not None:
        found.refuse_blurred(str(values.name), where)


def _refuse_label(spec: PipelineSpec, label: Moments, where: str) -> None:
    objective, key = spec.train.objective, f"columns.{spec.label}"
    remedy = "see that the label is filled in as it should be, or raise source.window_days"
    if not label.count:
        weight = next(iter(spec.with_role("weight")), "")
        raise DataRejected(
            f"columns.{weight}: every row of {where} has weight 0", remedy="give the rows that count a weight above 0"
        )
    if objective == "ranking" and not label.mean:
        raise DataRejected(f"{key}: no row of {where} has a positive label; a ranking learns from those", remedy=remedy)
    if objective in {"binary", "multiclass"} and not label.m2:
        message = f"{key}: every row of {where} has the label {label.mean:g}; a {objective} model needs two classes"
        raise DataRejected(message, remedy=remedy)


def _numbers(spec: PipelineSpec) -> list[str]:
    """The column of each number that is standardised."""
    plain = [name for name in spec.with_role("numeric") if not spec.columns[name].is_vector]
    return [*plain, *(one.name for one in vectors(spec) for _ in range(one.dimension))]


def _empty_categories(spec: PipelineSpec, counts: Sequence[Ids]) -> Iterator[str]:
    plain = (name for name in spec.with_role("categorical") if not spec.columns[name].is_list)
    for place, name in enumerate([*plain, *(one.name for one in lists(spec))]):
        if not any(((day[:, 0] == place) & (day[:, 1] != MISSING)).any() for day in counts):
            yield name


def _empty(spec: PipelineSpec, name: str, where: str) -> DataRejected:
    own = "correct what derive in features.py puts into it, or remove the column from pipeline.yaml and derive"
    if spec.columns[name].make is not None:
        own = f"correct columns.{name}.make, or the columns that it reads"
    return DataRejected(
        f"columns.{name}: no row of {where} has a value that the model can read",
        remedy=own if spec.columns[name].derived else "deliver the column, or give it the role ignore",
    )


def _blurred(name: str, where: str, middle: float) -> DataRejected:
    return DataRejected(
        f"columns.{name}: the values of {where} lie around {middle:.6g} and differ by less than a float64 shows there",
        remedy="subtract a fixed number from them, of a feature in features.py and of a label in the source; or give"
        " the column the role categorical or ignore",
    )
