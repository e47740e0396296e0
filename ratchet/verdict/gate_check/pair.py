"""Two models on the held-out units: what a night that is drawn from these units would have measured.

A pair of sums keeps what each unit adds to a metric, so that a night is a choice of rows of a small table. A pair of
scores keeps the rows themselves, for a metric that is no sum over units, such as an area under a curve.
"""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ratchet.contracts.gate import lower_is_better
from ratchet.metrics.metrics import OF_RANKS, Floats, Measurement, Rows, measure
from ratchet.verdict.gain import relative_gain
from ratchet.verdict.gate_check.draws import Indices, Night, ranges

Mask = NDArray[np.bool_]
Measured = tuple[Measurement, Measurement]

OF_MEANS = OF_RANKS | {"logloss", "brier", "accuracy", "rmse", "mae", "pinball@Q"}
"""Metrics that are a mean over units, or its root: column 0 of their sums over column 1."""


class Pair(Protocol):
    """Candidate and baseline on the same units."""

    @property
    def metric(self) -> str:
        """The metric that is measured."""
        ...

    @property
    def units(self) -> int:
        """How many units there are."""
        ...

    @property
    def whole(self) -> Measured | None:
        """Both models on all units."""
        ...

    def measure(self, night: Night, *, theirs: Mask | None = None, ours: Mask | None = None) -> Measured | None:
        """Both models on a night; None where the metric has no value on it.

        theirs, ours: [units of the night], where the candidate has the baseline's values, and the baseline the
        candidate's.
        """
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class SummedPair:
    """A pair of sums."""

    metric: str
    candidate: Measurement
    baseline: Measurement

    @property
    def units(self) -> int:
        """How many units there are."""
        return len(self.candidate.sums)

    @property
    def whole(self) -> Measured:
        """Both models on all units."""
        return self.candidate, self.baseline

    def measure(self, night: Night, *, theirs: Mask | None = None, ours: Mask | None = None) -> Measured | None:
        """Both models on a night."""
        if not len(night.units):
            return None
        first, second = self.candidate.sums[night.units], self.baseline.sums[night.units]
        return (
            _on(self.candidate, first if theirs is None else np.where(theirs[:, None], second, first), night),
            _on(self.baseline, second if ours is None else np.where(ours[:, None], first, second), night),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredPair:
    """A pair of scores. offsets: [units + 1] into the rows; the groups of a unit are next to each other too."""

    metric: str
    rows: Rows
    candidate: Floats
    baseline: Floats
    offsets: Indices

    @property
    def units(self) -> int:
        """How many units there are."""
        return len(self.offsets) - 1

    @property
    def whole(self) -> Measured | None:
        """Both models on all units."""
        return _both(self.metric, self.rows, self.candidate, self.baseline)

    def measure(self, night: Night, *, theirs: Mask | None = None, ours: Mask | None = None) -> Measured | None:
        """Both models on a night."""
        index = ranges(self.offsets, night.units)
        sizes = np.diff(self.offsets)[night.units]
        weight = None if self.rows.weight is None else self.rows.weight[index]
        clustered = self.rows.cluster is not None
        rows = Rows(
            label=self.rows.label[index],
            offsets=self._groups(night),
            weight=weight,
            cluster=np.repeat(np.arange(len(sizes)), sizes) if clustered else None,
        )
        first, second = self.candidate[index], self.baseline[index]
        return _both(
            self.metric,
            rows,
            first if theirs is None else np.where(_by_row(theirs, sizes, first.ndim), second, first),
            second if ours is None else np.where(_by_row(ours, sizes, first.ndim), first, second),
        )

    def _groups(self, night: Night) -> Indices | None:
        """Where the groups of a night begin, and the end."""
        if self.rows.offsets is None:
            return None
        first = np.searchsorted(self.rows.offsets, self.offsets)
        sizes = np.diff(self.rows.offsets)[ranges(first, night.units)]
        return np.concatenate([[0], np.cumsum(sizes)])


def gain(measured: Measured, metric: str) -> float:
    """The relative gain of the first over the second."""
    values = (np.array([one.value]) for one in measured)
    return float(relative_gain(*values, lower_is_better=lower_is_better(metric))[0])


def _both(metric: str, rows: Rows, candidate: Floats, baseline: Floats) -> Measured | None:
    ours, theirs = measure(metric, rows, candidate), measure(metric, rows, baseline)
    return (ours, theirs) if ours and theirs else None


def _on(measurement: Measurement, sums: Floats, night: Night) -> Measurement:
    value = float(measurement.combine(sums.sum(axis=0)))
    return replace(measurement, value=value, sums=sums, information=measurement.information[night.units])


def _by_row(mask: Mask, sizes: Indices, dimensions: int) -> Mask:
    by_row = np.repeat(mask, sizes)
    return by_row if dimensions == 1 else by_row[:, None]
