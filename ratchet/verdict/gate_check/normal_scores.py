"""Scores on a scale of their own, for metrics that only look at their order."""

from statistics import NormalDist

import numpy as np

from ratchet.metrics.metrics import Floats

_GRID = 4096
"""Points of the normal distribution between which its quantiles are interpolated."""


def normal_scores(score: Floats) -> Floats:
    """The same order on the scale of a normal distribution, equal scores equal (van der Waerden 1952).

    Two models on one scale can change places row by row, and a shift means the same for both.
    """
    order = np.argsort(score, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(score[order]) != 0, True))
    starts = np.concatenate([[0], ends[:-1] + 1])
    middle = np.repeat((starts + ends) / 2, ends - starts + 1)
    share = np.empty(len(score))
    share[order] = (middle + 1) / (len(score) + 1)
    chances = np.arange(1, _GRID) / _GRID
    edges = np.concatenate([[share.min(initial=0.5)], chances, [share.max(initial=0.5)]])
    edges = np.unique(edges)
    normal = NormalDist()
    return np.interp(share, edges, [normal.inv_cdf(chance) for chance in edges])
