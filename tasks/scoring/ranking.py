"""Metrics of a ranked group, as expected when rows of equal score come in random order (McSherry & Najork 2008).

A scorer that says the same of every row so gets what a random order gets, whatever order the rows were stored in.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def ndcg(label: Floats, score: Floats, offsets: NDArray[np.int64], cut: int) -> Floats:
    """Normalised discounted cumulative gain of each group [groups]; NaN for groups without a positive label.

    The gain of a row is its label, its discount 1 / log2(1 + rank), rows ranked below `cut` count nothing.
    """
    group, place = _places(offsets)
    discount = np.where(place < cut, 1 / np.log2(place + 2.0), 0.0)
    order, run = _ranked(score, group)
    gain = label[order]
    if run[-1] + 1 < len(run):
        discount_of_run = np.bincount(run, discount) / np.bincount(run)
        reached = np.bincount(group, gain * discount_of_run[run])
    else:
        reached = np.bincount(group, gain * discount)
    best, _ = _ranked(label, group)
    ideal = np.bincount(group, label[best] * discount)
    return np.where(ideal > 0, reached / np.where(ideal > 0, ideal, 1.0), np.nan)


def mrr(label: Floats, score: Floats, offsets: NDArray[np.int64], cut: int) -> Floats:
    """Reciprocal rank of each group's first positive row [groups], 0 below `cut`; NaN for groups without one."""
    groups = len(offsets) - 1
    group, place = _places(offsets)
    order, run = _ranked(score, group)
    positive = label[order] > 0
    size = np.bincount(run)
    hits = np.bincount(run, positive).astype(np.int64)
    start = np.flatnonzero(np.diff(run, prepend=-1))
    with_hits = np.flatnonzero(hits)
    group_of = group[start[with_hits]]
    first = with_hits[np.diff(group_of, prepend=-1) > 0]  # of each group with a positive, the run with its first
    values = np.full(groups, np.nan)
    values[group[start[first]]] = _expected(place[start[first]], size[first], hits[first], cut)
    return values


def _expected(start: NDArray[np.int64], size: NDArray[np.int64], hits: NDArray[np.int64], cut: int) -> Floats:
    """Reciprocal rank of the first of `hits` positives among `size` rows in random order, from rank start + 1 on."""
    expected = np.zeros(len(start))
    none_before = np.ones(len(start))
    for step in range(min(cut, int((size - hits).max(initial=0)) + 1)):
        left = np.maximum(size - step, 1)
        here = np.where(size > step, hits / left, 0.0)
        expected += np.where(start + step < cut, none_before * here / (start + step + 1), 0.0)
        none_before *= np.clip(1 - here, 0.0, 1.0)
    return expected


def _places(offsets: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The group of each row and its place in it, from 0."""
    group = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return group, np.arange(offsets[-1]) - offsets[:-1][group]


def _ranked(score: Floats, group: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows by group and falling score, and the run of equal scores within a group that each (in that order) is in."""
    order = np.lexsort((-score, group))
    new = np.diff(score[order], prepend=np.nan) != 0
    new |= np.diff(group, prepend=-1) > 0
    return order, np.cumsum(new) - 1
