"""A metric of one model, as sums over units that can be resampled."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ratchet.metrics.rows import Floats, Rows

MAX_BLOCKS = 2048
"""More units than this are summed into so many blocks to be resampled; the spread is then still known to about 2 %."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """A metric of one model, as sums that can be resampled.

    value: the metric on all rows. sums: [units, k], additive over units. combine: computes the metric [...] from sums
    [..., k]; the sums of the columns give `value`, and twice all sums give it too. information: [units, j], the weight
    of what each unit tells; for a metric that needs two kinds of rows a column each. tailed: a single unit may
    outweigh all others, as in an error without an upper limit. noise: so much of the value may be noise, which can only
    add to a metric that is a distance.
    """

    value: float
    sums: Floats
    combine: Callable[[Floats], Floats]
    information: Floats
    tailed: bool = False
    noise: float = 0.0

    @property
    def effective(self) -> int:
        """The number of units of equal weight that would vary as much as these; of the kind of which there are fewer.

        All that carry information, if all weigh the same (Kish 1965).
        """
        return min((kish(column) for column in self.information.T), default=0)


def kish(weight: Floats) -> int:
    """The number of units of equal weight that vary as much as these (Kish 1965): all of them if all weigh the same."""
    weight = weight[weight > 0]
    if not len(weight):
        return 0
    share = weight / weight.max()
    return int(share.sum() ** 2 / np.square(share).sum() + 1e-9)


def blocks(columns: Floats) -> Floats:
    """The sums of at most MAX_BLOCKS interleaved blocks of units [blocks, k]."""
    units, width = columns.shape
    if units <= MAX_BLOCKS:
        return columns
    deep = -(-units // MAX_BLOCKS)
    padded = np.zeros((deep * MAX_BLOCKS, width))
    padded[:units] = columns
    return np.asarray(padded.reshape(deep, MAX_BLOCKS, width).sum(axis=0))


def mean(total: Floats, count: Floats, weight: Floats, *, tailed: bool = False) -> Measurement:
    """The mean of a value over units: its sums and the weights that these are sums over; weight: of each unit."""
    sums = np.stack([total, count], axis=1)
    whole = sums.sum(axis=0)
    return Measurement(
        value=float(whole[0] / whole[1]), sums=sums, combine=ratio, information=weight[:, None], tailed=tailed
    )


def ratio(sums: Floats) -> Floats:
    """The first sum over the second."""
    return np.asarray(sums[..., 0] / sums[..., 1])


def mean_of_rows(values: Floats, rows: Rows, *, tailed: bool = False) -> Measurement:
    """The weighted mean of a value of each row."""
    sums = rows.by_unit(np.stack([values * rows.weights, rows.weights], axis=1))
    weight = rows.weights_of_units(np.ones(len(rows.label), bool))
    return mean(sums[:, 0], sums[:, 1], weight, tailed=tailed)


def mean_of_groups(values: Floats, rows: Rows) -> Measurement | None:
    """The weighted mean of a value of each group; NaN says nothing. None where no group says anything.

    The units are those with a positive label, whatever the values are, so that those of two models are the same.
    """
    whole = rows.weights_of_groups()
    weight = np.where(np.isnan(values), 0.0, whole)
    sums = rows.groups_by_unit(
        np.stack([np.where(weight > 0, values, 0.0) * weight, weight, weight > 0, whole], axis=1)
    )
    sums = sums[sums[:, 3] > 0]
    if not (sums[:, 1] > 0).any():
        return None
    return mean(sums[:, 0], sums[:, 1], sums[:, 1] / np.maximum(sums[:, 2], 1))
