"""Where the numbers of a column lie: a small summary of each day, and quantiles of several days together.

A summary of a day has at most POINTS values of a column with the number of rows that each stands for, and one of
several days at most KEPT, and the least and the greatest one for no rows. So the rank of a quantile is off by at most
half a POINTS-th of their rows, and by half a KEPT-th for each time that days were put together and had more: six times
for a year, see ratchet.runtime.blocks. Both numbers are powers of two, so that rows are added without rounding.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ratchet.contracts.columns import Transform
from tasks.features.statistics import transformed

POINTS = 512
"""Values of a column that a day's summary has at most; all that there are, if there are fewer."""
KEPT = 2048
"""Values of a column that the summary of several days has at most, beside its two ends."""

_SORTED = 131_072
"""Values that are sorted as they are, or looked at at once."""
_BINS = 1 << 16
Summary = NDArray[np.float64]
"""float64 [n, 3] of (column, value, rows that it stands for), ascending."""


def summarise(values: NDArray[np.floating], column: int, transform: Transform | None) -> Summary:
    """Summarise the numbers of a column of a day after its transform. Missing values are left out."""
    wide = transformed(values, transform)
    finite = np.isfinite(wide)
    value, rows = _points(wide if finite.all() else wide[finite])
    return np.stack([np.full(len(value), float(column)), value, rows], axis=1)


def _points(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """All values that differ, ascending, with their rows; if that are more than POINTS, a part of them.

    These are the values in the middle of POINTS equal parts of all rows, each with a part's rows; equal ones are one.
    """
    part = len(values) / POINTS
    middle = ((np.arange(POINTS) + 0.5) * part).astype(np.int64)
    found = _at_ranks(values, middle) if len(values) > _SORTED else None
    if found is None:
        values.sort()
        if np.count_nonzero(values[1:] != values[:-1]) < POINTS:
            unique, count = np.unique(values, return_counts=True)
            return unique, count.astype(np.float64)
        found = values[middle]
    unique, points = np.unique(found, return_counts=True)
    return unique, points.astype(np.float64) * part


def _at_ranks(values: NDArray[np.float64], ranks: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """The values at ascending ranks, without a sort of all: only the bins of equal width that have a rank are sorted.

    None where that saves nothing, or where the values may have no more than POINTS that differ.
    """
    low, high = values.min(), values.max()
    with np.errstate(over="ignore", divide="ignore"):
        scale = (_BINS - 1) / (high - low)
    if not 0 < scale < np.inf:
        return None
    parts = [values[begin : begin + _SORTED] for begin in range(0, len(values), _SORTED)]
    bins = [((part - low) * scale).astype(np.uint16) for part in parts]  # never descending where values ascend
    rows = np.sum([np.bincount(each, minlength=_BINS) for each in bins], axis=0)
    ends = np.cumsum(rows)
    wanted = np.zeros(_BINS, np.bool_)
    wanted[np.searchsorted(ends, ranks, side="right")] = True
    if np.count_nonzero(rows) <= POINTS or rows[wanted].sum() > len(values) // 2:
        return None
    chosen = np.sort(np.concatenate([part[wanted[each]] for part, each in zip(parts, bins, strict=True)]))
    left_out = np.cumsum(np.where(wanted, 0, rows))
    found: NDArray[np.float64] = chosen[ranks - left_out[np.searchsorted(ends, ranks, side="right")]]
    return found


def add_summaries(parts: Sequence[Summary]) -> Summary:
    """The summary of several parts of the rows."""
    found = [np.zeros((0, 3))]
    for column in sorted({float(column) for part in parts for column in np.unique(part[:, 0])}):
        value, rows = _thinned(*_sorted(part[part[:, 0] == column] for part in parts))
        found.append(np.stack([np.full(len(value), column), value, rows], axis=1))
    return np.concatenate(found)


def _sorted(parts: Iterable[Summary]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """All values that differ, ascending, and the rows that each stands for."""
    points = np.concatenate([*parts])
    value, place = np.unique(points[:, 1], return_inverse=True)
    return value, np.bincount(place, weights=points[:, 2], minlength=len(value)).astype(np.float64)


def _thinned(value: NDArray[np.float64], rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The values as they are, or those in the middle of KEPT equal parts of the rows, and the two ends for no rows."""
    if len(value) <= KEPT + 2:
        return value, rows
    below = np.cumsum(rows)
    part = below[-1] / KEPT
    chosen = value[np.searchsorted(below, (np.arange(KEPT) + 0.5) * part)]
    found, place = np.unique(np.concatenate([value[[0, -1]], chosen]), return_inverse=True)
    parts = np.bincount(place, weights=np.r_[0.0, 0.0, np.ones(KEPT)], minlength=len(found))
    return found, parts.astype(np.float64) * part


def edges(days: Iterable[Summary], column: int, bins: int) -> NDArray[np.float64]:
    """The ends of `bins` parts of a column with equally many rows, over all days, ascending; equal ends are one.

    Fewer than two for a column with fewer than two values.
    """
    of_column = np.concatenate([np.zeros((0, 3)), *(day[day[:, 0] == column] for day in days)])
    if not len(of_column):
        return np.zeros(0)
    order = np.argsort(of_column[:, 1], kind="stable")
    values, weight = of_column[order, 1], np.cumsum(of_column[order, 2])
    inner = np.searchsorted(weight, np.arange(1, bins) * (weight[-1] / bins))
    return np.unique(np.concatenate([values[:1], values[inner], values[-1:]]))
