"""Candidate and baseline on each value of a column."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ratchet.contracts.gate import LOWER_IS_BETTER, family
from ratchet.metrics.metrics import OF_RANKS, Floats, Rows, measure
from ratchet.verdict.comparison import compare
from ratchet.verdict.rules import SliceComparison

MAX_VALUES = 50
"""The most frequent values are judged one by one, all others together: a slice is for what people have names for."""

MISSING, OTHER = "(missing)", "(other)"


def compare_slices(
    column: str,
    values: pd.Series,
    *,
    metric: str,
    rows: Rows,
    candidate: Floats,
    baseline: Floats,
    confidence: float,
    seed: int,
) -> list[SliceComparison]:
    """One comparison for each value of a column, the most frequent value first.

    A metric of ranks judges whole groups: it takes the groups that have the value in any row. Of a few rows of a group
    it would measure another ranking, and of a single one nothing.
    """
    lower = family(metric) in LOWER_IS_BETTER
    found = []
    for name, chosen in _masks(values):
        mask = rows.whole_groups(chosen) if family(metric) in OF_RANKS else chosen
        here = rows.select(mask)
        ours, theirs = measure(metric, here, candidate[mask]), measure(metric, here, baseline[mask])
        compared = (
            compare(ours, theirs, lower_is_better=lower, confidence=confidence, seed=seed) if ours and theirs else None
        )
        found.append(
            SliceComparison(
                column=column,
                value=name,
                rows=int(mask.sum()),
                candidate=ours.value if ours else None,
                baseline=theirs.value if theirs else None,
                comparison=compared if compared and compared.measurable else None,
            )
        )
    return found


def _masks(values: pd.Series) -> list[tuple[str, NDArray[np.bool_]]]:
    codes, unique = pd.factorize(values)
    names = [_name(value) for value in unique]
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    order = sorted(range(len(names)), key=lambda code: (-counts[code], names[code]))
    masks = [(names[code], codes == code) for code in order[:MAX_VALUES]]
    if order[MAX_VALUES:]:
        masks.append((OTHER, np.isin(codes, order[MAX_VALUES:])))
    if (codes < 0).any():
        masks.append((MISSING, codes < 0))
    return masks


def _name(value: object) -> str:
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    return str(value)[:100]
