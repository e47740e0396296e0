"""Candidate and baseline on each slice of the held-out rows."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ratchet.contracts.gate import family, lower_is_better
from ratchet.contracts.slices import Slice
from ratchet.metrics.measurement import Measurement
from ratchet.metrics.metrics import OF_RANKS, Floats, Measure, Rows, measure
from ratchet.verdict.comparison import MIN_UNITS, Comparison, compare
from ratchet.verdict.masks import slice_rows


@dataclass(frozen=True, kw_only=True)
class SliceComparison:
    """One slice. comparison: None where it cannot be measured."""

    column: str
    value: str
    rows: int
    candidate: float | None
    baseline: float | None
    comparison: Comparison | None


def is_provable(found: Comparison, candidate: Measurement, baseline: Measurement) -> bool:
    """Whether a guard rail can be proven: by the units that differ, or if enough units are there and none differs."""
    same = candidate.sums.shape == baseline.sums.shape and np.array_equal(candidate.sums, baseline.sums)
    return found.measurable or (same and candidate.effective >= MIN_UNITS)


def compare_slices(
    one: Slice,
    frame: pd.DataFrame,
    *,
    metric: str,
    rows: Rows,
    candidate: Floats,
    baseline: Floats,
    confidence: float,
    seed: int,
    measure: Measure = measure,
    of_groups: bool = False,
) -> list[SliceComparison]:
    """One comparison for each slice that an entry of evaluate.slices makes.

    A metric of ranks judges whole groups: it takes the groups that have a row in the slice. Of a few rows of a group
    it would measure another ranking, and of a single one nothing.
    """
    lower = lower_is_better(metric)
    found = []
    for column, value, chosen in slice_rows(one, frame):
        mask = rows.whole_groups(chosen) if of_groups or family(metric) in OF_RANKS else chosen
        here = rows.select(mask)
        ours, theirs = measure(metric, here, candidate[mask]), measure(metric, here, baseline[mask])
        compared = (
            compare(ours, theirs, lower_is_better=lower, confidence=confidence, seed=seed) if ours and theirs else None
        )
        found.append(compared_slice(column, value, int(mask.sum()), ours, theirs, compared))
    return found


def compared_slice(
    column: str,
    value: str,
    rows: int,
    ours: Measurement | None,
    theirs: Measurement | None,
    compared: Comparison | None,
) -> SliceComparison:
    """A slice with its comparison where anything can be proven by it."""
    return SliceComparison(
        column=column,
        value=value,
        rows=rows,
        candidate=ours.value if ours else None,
        baseline=theirs.value if theirs else None,
        comparison=compared if ours and theirs and compared and is_provable(compared, ours, theirs) else None,
    )
