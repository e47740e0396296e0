"""What is fitted on the training days, from the statistics of each of them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ratchet.model.fitted_state import FittedState
from tasks.features.quantiles import Summary, edges
from tasks.features.statistics import Moments, vocabulary

BINS = 48
"""Bins of a number, each with equally many rows of the training days (Gorishniy et al. 2022, arXiv 2203.05556)."""


def fit(
    numbers: Sequence[Moments],
    counts: Sequence[NDArray[np.int64]],
    quantiles: Sequence[Summary],
    label: Moments,
    *,
    categorical: int,
    min_count: int,
) -> FittedState:
    """numbers: moments of each numeric column over all days. counts, quantiles: of each day. categorical: columns."""
    mean, std = np.array([column.mean for column in numbers]), np.array([column.std for column in numbers])
    return FittedState(
        mean=mean,
        std=std,
        vocabulary=tuple(vocabulary(counts, column, min_count) for column in range(categorical)),
        edges=tuple((edges(quantiles, column, BINS) - mean[column]) / std[column] for column in range(len(numbers))),
        label_mean=label.mean,
        label_std=label.std,
    )
