"""What is fitted on the training days, from the statistics of each of them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ratchet.model.fitted_state import FittedState
from tasks.features.category_statistics import Source, fit_statistics
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
    statistics: Source | None = None,
) -> FittedState:
    """numbers: moments of each numeric column over all days. counts, quantiles: of each day. categorical: columns.

    statistics: what those of categories are made of, if there are any.
    """
    known = tuple(vocabulary(counts, column, min_count) for column in range(categorical))
    mean, std = np.array([column.mean for column in numbers]), np.array([column.std for column in numbers])
    ends = tuple((edges(quantiles, column, BINS) - mean[column]) / std[column] for column in range(len(numbers)))
    fitted = FittedState(mean=mean, std=std, vocabulary=known, edges=ends, label_mean=label.mean, label_std=label.std)
    if statistics is None:
        return fitted
    found = fit_statistics(statistics, known, BINS)
    return replace(
        fitted,
        mean=np.append(mean, [one.mean for one in found.numbers]),
        std=np.append(std, [one.std for one in found.numbers]),
        edges=(*ends, *found.edges),
        statistics=found.statistics,
        of_days=found.of_days,
    )
