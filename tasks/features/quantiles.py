"""Where the numbers of a column lie: a small summary of each day, and quantiles of several days together.

A summary has at most POINTS values of a column with the number of rows that each stands for. So the rank of a quantile
of any number of days is off by at most half a POINTS-th of their rows.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ratchet.contracts.columns import Transform
from tasks.features.statistics import transformed

POINTS = 512
"""Values of a column that a day's summary has at most; all that there are, if there are fewer."""

Summary = NDArray[np.float64]
"""float64 [n, 3] of (column, value, rows that it stands for), ascending."""


def summarise(numbers: NDArray[np.floating], transforms: Sequence[Transform | None]) -> Summary:
    """Summarise a day's numbers [rows, columns] after their transforms. Missing values are left out."""
    found = [np.zeros((0, 3))]
    for column, transform in enumerate(transforms):
        values = transformed(numbers[:, column], transform)
        unique, count = np.unique(values[np.isfinite(values)], return_counts=True)
        value, rows = _thinned(unique, count) if len(unique) > POINTS else (unique, count.astype(np.float64))
        found.append(np.stack([np.full(len(value), float(column)), value, rows], axis=1))
    return np.concatenate(found)


def _thinned(unique: NDArray[np.float64], count: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The values in the middle of POINTS equal parts of all rows, each with a part's rows; equal ones are one."""
    rows = int(count.sum())
    middle = (np.arange(POINTS) + 0.5) * (rows / POINTS)
    place, points = np.unique(np.searchsorted(np.cumsum(count), middle, side="right"), return_counts=True)
    return unique[place], points.astype(np.float64) * (rows / POINTS)


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
