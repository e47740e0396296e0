"""Metrics of ranked groups: their expected values if equal scores are in random order (McSherry & Najork 2008).

A scorer that gives every row the same score thus gets the value of a random order, whatever the order in the store.
label, score: float64 [rows]. offsets: int64 [groups + 1] of the groups into the rows, none of them empty.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Offsets = NDArray[np.int64]


def ndcg(label: Floats, score: Floats, offsets: Offsets, cut: int) -> Floats:
    """Normalised discounted cumulative gain of each group [groups]; NaN for groups without a positive label.

    The gain of a row is its label, its discount 1 / log2(1 + rank); rows ranked below `cut` count zero.
    """
    values = np.full(len(offsets) - 1, np.nan)
    binary = bool(((label == 0) | (label == 1)).all())
    for groups, rows in _by_size(offsets):
        gains, below = _pad(label, rows, 0.0), _pad(-score, rows, np.inf)
        discount = _discount(gains.shape[1], cut)
        reached, ideal = _dcg(gains, below, discount), _ideal_dcg(gains, discount, binary=binary)
        some = ideal > 0
        values[groups[some]] = reached[some] / ideal[some]
    return values


def mrr(label: Floats, score: Floats, offsets: Offsets, cut: int) -> Floats:
    """Reciprocal rank of each group's first positive row [groups], 0 below `cut`; NaN for groups without one."""
    if len(offsets) == 1:
        return np.empty(0)
    begins, sizes = offsets[:-1], np.diff(offsets)
    positive = label > 0
    best = np.maximum.reduceat(np.where(positive, score, -np.inf), begins)
    first = np.repeat(best, sizes)
    tied = score == first
    above = np.add.reduceat(score > first, begins, dtype=np.int64)
    equal = np.add.reduceat(tied, begins, dtype=np.int64)
    hits = np.add.reduceat(tied & positive, begins, dtype=np.int64)
    values = np.full(len(sizes), np.nan)
    some = hits > 0
    values[some] = _expected_reciprocal_rank(above[some], equal[some], hits[some], cut)
    return values


def _by_size(offsets: Offsets) -> list[tuple[Offsets, Offsets | tuple[int, int]]]:
    """Groups of similar size, to compute them as matrices: (their numbers, their rows).

    Rows are [groups, width] with -1 for padding, which is at most half; or the shape, if all groups have one size.
    """
    sizes = np.diff(offsets)
    if not len(sizes):
        return []
    if (sizes == sizes[0]).all():
        return [(np.arange(len(sizes)), (len(sizes), int(sizes[0])))]
    found: list[tuple[Offsets, Offsets | tuple[int, int]]] = []
    steps = np.frexp(sizes - 0.5)[1]  # sizes from 2^(step-1) + 1 to 2^step
    for step in np.unique(steps):
        groups = np.flatnonzero(steps == step)
        place = np.arange(sizes[groups].max())
        found.append((groups, np.where(place < sizes[groups, None], offsets[groups, None] + place, -1)))
    return found


def _pad(values: Floats, rows: Offsets | tuple[int, int], fill: float) -> Floats:
    padded: Floats = values.reshape(rows) if isinstance(rows, tuple) else np.append(values, fill)[rows]
    return padded


def _discount(width: int, cut: int) -> Floats:
    """The discounts of the ranks that count, at most `cut` and `width`."""
    discount: Floats = 1 / np.log2(np.arange(min(width, cut)) + 2.0)
    return discount


def _dcg(gains: Floats, below: Floats, discount: Floats) -> Floats:
    """Discounted gain of each group; below: lower is better. Sorts only groups with ties above the cutoff."""
    cut, width = len(discount), below.shape[1]
    if cut < width:
        top = np.argpartition(below, cut, axis=1)[:, : cut + 1]
        scores = np.take_along_axis(below, top, axis=1)
        order = np.argsort(scores, axis=1)
        top = np.take_along_axis(top, order, axis=1)
        ordered = np.take_along_axis(scores, order, axis=1)
    else:
        top = np.argsort(below, axis=1)
        ordered = np.take_along_axis(below, top, axis=1)
    reached: Floats = np.take_along_axis(gains, top[:, :cut], axis=1) @ discount
    equal = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] < np.inf)
    tied = np.flatnonzero(equal.any(axis=1))
    if len(tied):
        reached[tied] = _dcg_of_ties(gains[tied], below[tied], discount)
    return reached


def _dcg_of_ties(gains: Floats, below: Floats, discount: Floats) -> Floats:
    """Discounted gain if the rows with equal scores share the discounts of their ranks."""
    order = np.argsort(below, axis=1)
    ordered = np.take_along_axis(below, order, axis=1)
    new = np.ones(ordered.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    run = np.cumsum(new) - 1
    of_rank = np.zeros(ordered.shape)
    of_rank[:, : len(discount)] = discount
    shared = (np.bincount(run, of_rank.ravel()) / np.bincount(run))[run].reshape(ordered.shape)
    total: Floats = np.einsum("gr,gr->g", np.take_along_axis(gains, order, axis=1), shared)
    return total


def _ideal_dcg(gains: Floats, discount: Floats, *, binary: bool) -> Floats:
    if binary:
        summed = np.append(0.0, np.cumsum(discount))
        best: Floats = summed[np.minimum(gains.sum(axis=1).astype(np.int64), len(discount))]
        return best
    ideal: Floats = -np.sort(-gains, axis=1)[:, : len(discount)] @ discount
    return ideal


def _expected_reciprocal_rank(above: Offsets, equal: Offsets, hits: Offsets, cut: int) -> Floats:
    """Expected reciprocal rank of the first of `hits` positives among `equal` rows in random order, after `above`."""
    expected = np.zeros(len(above))
    none_before = np.ones(len(above))
    for step in range(min(cut, int((equal - hits).max(initial=0)) + 1)):
        here = np.where(equal > step, hits / np.maximum(equal - step, 1), 0.0)
        expected += np.where(above + step < cut, none_before * here / (above + step + 1), 0.0)
        none_before *= np.clip(1 - here, 0.0, 1.0)
    return expected


def average_precision(label: Floats, score: Floats, offsets: Offsets, cut: int) -> Floats:
    """Mean of the precision at each positive row [groups], over min(positives, cut); NaN for groups without one.

    Positives ranked below `cut` count zero.
    """
    return _of_positives(label, score, offsets, cut, lambda _, mean, __: mean)


def precision(label: Floats, score: Floats, offsets: Offsets, cut: int) -> Floats:
    """The share of positives among the first `cut` ranks [groups]; missing ranks of a short group hold none."""
    return _of_positives(label, score, offsets, cut, lambda hits, *_: hits / cut)


def recall(label: Floats, score: Floats, offsets: Offsets, cut: int) -> Floats:
    """The share of a group's positives that are among the first `cut` ranks [groups]."""
    return _of_positives(label, score, offsets, cut, lambda hits, _, total: hits / total)


def _of_positives(
    label: Floats,
    score: Floats,
    offsets: Offsets,
    cut: int,
    value: Callable[[Floats, Floats, Floats], Floats],
) -> Floats:
    """A value of each group from (expected positives by `cut`, mean precision at positives, all positives)."""
    values = np.full(len(offsets) - 1, np.nan)
    positive = (label > 0).astype(np.float64)
    for groups, rows in _by_size(offsets):
        found, below = _pad(positive, rows, 0.0), _pad(-score, rows, np.inf)
        total = found.sum(axis=1)
        some = total > 0
        hits, summed = _expected_hits(found[some], below[some], cut)
        values[groups[some]] = value(hits, summed / np.minimum(total[some], cut), total[some])
    return values


def _expected_hits(found: Floats, below: Floats, cut: int) -> tuple[Floats, Floats]:
    """Expected number of positives in the first `cut` ranks, and expected sum of precisions at them [groups].

    Of t tied rows with p positives after `above` rows with `hits` positives, the j-th (from 1) is positive with the
    chance p / t, and then (j - 1) * (p - 1) / (t - 1) of the ones before it are expected to be so.
    """
    order = np.argsort(below, axis=1)
    ordered, found = np.take_along_axis(below, order, axis=1), np.take_along_axis(found, order, axis=1)
    new = np.ones(ordered.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    run = np.cumsum(new) - 1
    size, hits = np.bincount(run), np.bincount(run, found.ravel())
    place = np.arange(ordered.shape[1]) + 1.0
    begin = np.broadcast_to(place, ordered.shape)[new][run].reshape(ordered.shape)
    tied, good = size[run].reshape(ordered.shape), hits[run].reshape(ordered.shape)
    summed = np.cumsum(found, axis=1)
    before = np.concatenate([np.zeros((len(found), 1)), summed[:, :-1]], axis=1)
    earlier = np.take_along_axis(before, begin.astype(np.int64) - 1, axis=1)
    chance = good / tied
    others = (place - begin) * (good - 1) / np.maximum(tied - 1, 1)
    count = place <= cut
    return (
        np.asarray((chance * count).sum(axis=1)),
        np.asarray((chance * (earlier + others + 1) / place * count).sum(axis=1)),
    )
