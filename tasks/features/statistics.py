"""Statistics of one day, and their sum over days: exact counts, and moments up to rounding."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ratchet.contracts.columns import Transform
from ratchet.contracts.document import Document

SMALLEST_SPREAD = 1e-12
"""A deviation below this share of the mean is the rounding of a constant: a float64 holds 16 digits."""


class Moments(Document):
    """The moments of the values that are not missing."""

    count: float = Field(description="The number of values, or the sum of their weights.")
    mean: float
    m2: float = Field(description="The sum of squared distances from the mean, which is numerically stable.")

    @property
    def std(self) -> float:
        """Population standard deviation; 1 for a constant column, to allow a division by it."""
        deviation = (self.m2 / self.count) ** 0.5 if self.count else 0.0
        return deviation if deviation > SMALLEST_SPREAD * abs(self.mean) else 1.0


EMPTY = Moments(count=0, mean=0.0, m2=0.0)


def transformed(values: NDArray[np.floating], transform: Transform | None) -> NDArray[np.float64]:
    """The values of a column as the model reads them; not finite outside the transform's domain."""
    wide = values.astype(np.float64)
    if transform == "log1p":
        with np.errstate(divide="ignore", invalid="ignore"):
            wide = np.log1p(wide)
    return wide


def moments(
    values: NDArray[np.floating], transform: Transform | None = None, weight: NDArray[np.floating] | None = None
) -> Moments:
    """The moments of a column. NaN, and values outside the transform's domain, count as missing.

    weight: how often each value counts, from 0 up; once without it.
    """
    wide = transformed(values, transform)
    share = np.ones(len(wide)) if weight is None else weight.astype(np.float64)
    there = np.isfinite(wide) & (share > 0)
    wide, share = wide[there], share[there]
    if not len(wide):
        return EMPTY
    total = float(share.sum())
    apart = wide - wide[0]  # exact for values that lie close together, however large they are
    shift = float((apart * share).sum()) / total
    return Moments(count=total, mean=float(wide[0]) + shift, m2=float((share * np.square(apart - shift)).sum()))


def merge(parts: Iterable[Moments]) -> Moments:
    """Merge moments into those of all values together (Chan et al. 1979)."""
    whole = EMPTY
    for part in parts:
        count = whole.count + part.count
        if not count:
            continue
        delta = part.mean - whole.mean
        whole = Moments(
            count=count,
            mean=whole.mean + delta * part.count / count,
            m2=whole.m2 + part.m2 + delta * delta * whole.count * part.count / count,
        )
    return whole


def count_ids(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count each id in each column of [rows, columns]: int64 [n, 3] of (column, id, count), sorted."""
    found = [np.zeros((0, 3), np.int64)]
    for column in range(ids.shape[1]):
        unique, counts = np.unique(ids[:, column], return_counts=True)
        found.append(np.stack([np.full(len(unique), column), unique, counts], axis=1))
    return np.concatenate(found)


def add_counts(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """What `count_ids` gives for all rows, from what it gave for parts of them."""
    found = [np.zeros((0, 3), np.int64)]
    for column in sorted({int(column) for part in parts for column in np.unique(part[:, 0])}):
        own = np.concatenate([part[part[:, 0] == column] for part in parts])
        unique, place = np.unique(own[:, 1], return_inverse=True)
        total = np.zeros(len(unique), np.int64)
        np.add.at(total, place, own[:, 2])
        found.append(np.stack([np.full(len(unique), column), unique, total], axis=1))
    return np.concatenate(found)


def vocabulary(
    days: Iterable[NDArray[np.int64]], column: int, min_count: int, *, also: Sequence[int] = ()
) -> NDArray[np.int64]:
    """The ids of a column that occur at least `min_count` times over all days, ascending. also: columns beside it."""
    wanted = (column, *also)
    of_column = np.concatenate([np.zeros((0, 3), np.int64), *(day[np.isin(day[:, 0], wanted)] for day in days)])
    unique, place = np.unique(of_column[:, 1], return_inverse=True)
    total = np.zeros(len(unique), np.int64)
    np.add.at(total, place, of_column[:, 2])
    return unique[total >= min_count]
