"""Gains and weights of rows as LightGBM takes them, as in losses.lambda_ndcg.

A change here violates the promise of the project when the scale of weights, or one large gain, changes what other rows
teach.
"""

import numpy as np
from numpy.typing import NDArray

from tasks.train.data import Rows

MOST_GAINS = 10_000
"""Gains that LightGBM is given; it goes through them for each group, so more would take long."""


def gain(rows: Rows) -> NDArray[np.float64]:
    """Label times weight, of each row."""
    label = rows.label.double().numpy()
    return label if rows.weight is None else label * rows.weight.double().numpy()


def gains_of(rows: Rows) -> NDArray[np.float64]:
    """0 and the gains that rows have, ascending; where those are too many, steps of one ratio in their place.

    So a gain of any size is rounded by a small share of itself, whatever the largest is, and none to 0.
    """
    gains = np.unique(gain(rows))
    positive = gains[gains > 0]
    if len(positive) >= MOST_GAINS:
        positive = np.geomspace(positive[0], positive[-1], MOST_GAINS - 1)
    return np.append(0.0, positive)


def mean_weight(weight: NDArray[np.float64] | None) -> float:
    """The mean of the weights that are known; 1 without one, or where all are 0."""
    known = np.zeros(0) if weight is None else weight[~np.isnan(weight)]
    return float(known.sum()) / max(len(known), 1) or 1.0


def weight_of_groups(rows: Rows, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each row what its labels weigh on average in its group; NaN where all are 0."""
    if rows.sizes is None:
        raise ValueError("a ranking needs groups")
    sizes, label = rows.sizes.numpy(), rows.label.double().numpy()
    begins = np.cumsum(sizes) - sizes
    relevance, weighted = (np.add.reduceat(each, begins) for each in (label, label * weight))
    share = np.divide(weighted, relevance, out=np.full(len(sizes), np.nan), where=relevance > 0)
    return np.repeat(share, sizes)
