"""What is fitted on the training days, from the statistics of each of them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ratchet.model.fitted_state import FittedState
from ratchet.model.independence import Reads
from tasks.features.category_statistics import Source, fit_statistics
from tasks.features.lists import tables
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
    columns: Reads,
    min_count: int,
    statistics: Source | None = None,
) -> FittedState:
    """numbers: moments of each numeric column and vector over all days. counts, quantiles: of blocks of days.

    The weights of lists stay as they are. statistics: what those of categories are made of, if there are any.
    """
    known = tuple(
        vocabulary(counts, first, min_count, also=also)
        for first, *also in tables(tuple(columns.categorical), columns.lists)
    )
    weights = sum(one.length for one in columns.lists if one.weights)
    mean = np.array([*(one.mean for one in numbers), *[0.0] * weights])
    std = np.array([*(one.std for one in numbers), *[1.0] * weights])
    plain, summaries = range(len(columns.numeric)), [np.concatenate(quantiles)] if quantiles else []
    ends = tuple((edges(summaries, column, BINS) - mean[column]) / std[column] for column in plain)
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
