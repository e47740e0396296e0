"""Areas under curves of all thresholds: AUC, and average precision."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from ratchet.metrics.measurement import MAX_BLOCKS, Measurement
from ratchet.metrics.rows import Codes, Floats, Rows

THRESHOLDS = 256
"""Average precision is resampled at so many thresholds; with no more distinct scores of positives that is exact."""


def auc(rows: Rows, score: Floats) -> Measurement | None:
    """The area under the ROC curve, resampled through its placement values (DeLong et al. 1988), by unit.

    On a resample the mean placement of positives and that of negatives are computed again, the placements not: the
    difference is of second order in both kinds at once.
    """
    positive = rows.label > 0
    ours = np.where(positive, rows.weights, 0.0)
    theirs = rows.weights - ours
    positives, negatives = float(ours.sum()), float(theirs.sum())
    if not positives or not negatives:
        return None
    order, ends = _runs(score)
    sizes = np.diff(ends, prepend=-1)
    above = np.cumsum(ours[order])[ends]
    before = np.concatenate([[0], above[:-1]])
    below = negatives - np.cumsum(theirs[order])[ends]
    beaten = below + np.diff(negatives - below, prepend=0) / 2  # negatives under a positive of this run, ties half
    beating = (before + above) / 2  # positives above a negative of this run, ties half
    place = np.empty(len(score))
    place[order] = np.where(
        positive[order], np.repeat(beaten / negatives, sizes), np.repeat(beating / positives, sizes)
    )
    value = float((place * ours).sum() / positives)
    sums = rows.by_unit(np.stack([place * ours, ours, place * theirs, theirs], axis=1))
    return Measurement(
        value=value, sums=sums, combine=partial(_placed, value), information=_of_both_labels(rows, positive)
    )


def _placed(value: float, sums: Floats) -> Floats:
    return np.asarray(sums[..., 0] / sums[..., 1] + sums[..., 2] / sums[..., 3] - value)


def pr_auc(rows: Rows, score: Floats) -> Measurement | None:
    """Average precision, computed again on each resample from the weights of positives and of all rows by threshold.

    Thresholds are the scores of positives. More than THRESHOLDS of them are joined to as many steps with about equally
    many positives each, in which precision changes evenly; the value itself is exact.
    """
    positive = rows.label > 0
    ours = np.where(positive, rows.weights, 0.0)
    positives = float(ours.sum())
    if not positives:
        return None
    order, ends = _runs(score)
    hits = np.cumsum(ours[order])[ends]
    seen = np.cumsum(rows.weights[order])[ends]
    gained = np.diff(hits, prepend=0.0)
    some = gained > 0
    value = float((gained[some] * hits[some] / seen[some]).sum() / positives)
    step, exact = _steps(gained)
    place = np.empty(len(score), np.int64)
    place[order] = np.repeat(step, np.diff(ends, prepend=-1))
    sums = _by_step(rows, ours, place, int(step[-1]) + 1)
    combine = partial(_average_precision, exact)
    shift = value - float(combine(sums.sum(axis=0)))
    return Measurement(
        value=value,
        sums=sums,
        combine=lambda totals: combine(totals) + shift,
        information=_of_both_labels(rows, positive),
    )


def _steps(gained: Floats) -> tuple[Codes, bool]:
    """The step of each run of equal scores, from the highest score down; whether each threshold has its own.

    A step ends with a run that has a positive. What comes after the last positive is the last step, which has none.
    """
    some = gained > 0
    rank: Codes = np.cumsum(some) - some  # positives' runs before this one
    count = int(some.sum())
    if count <= THRESHOLDS:
        return rank, True
    share = np.cumsum(gained)[some] / gained.sum()
    of_rank = np.minimum((share * THRESHOLDS - 1e-9).astype(np.int64), THRESHOLDS - 1)
    return np.append(of_rank, THRESHOLDS)[rank], False


def _by_step(rows: Rows, ours: Floats, step: Codes, count: int) -> Floats:
    """The weight of positives and of all rows by unit, or by block of units, and step [units, 2 * steps]."""
    unit, units = rows.unit_or_block(MAX_BLOCKS)
    cell = unit * count + step
    tables = [np.bincount(cell, weight, minlength=units * count) for weight in (ours, rows.weights)]
    return np.hstack([table.reshape(units, count) for table in tables])


def _average_precision(exact: bool, sums: Floats) -> Floats:  # noqa: FBT001 - bound by partial, before an array
    count = sums.shape[-1] // 2
    gained, reached = sums[..., :count], np.cumsum(sums, axis=-1)
    hits, seen = reached[..., :count], reached[..., count:] - reached[..., count - 1 : count]
    precision = np.divide(hits, seen, out=np.zeros_like(hits), where=seen > 0)
    if not exact:
        before = np.concatenate([precision[..., :1], precision[..., :-1]], axis=-1)
        precision = (precision + before) / 2
    return np.asarray((gained * precision).sum(axis=-1) / hits[..., -1])


def _of_both_labels(rows: Rows, positive: NDArray[np.bool_]) -> Floats:
    """The weight of the positive rows of each unit, and that of the others [units, 2]."""
    return np.stack([rows.weights_of_units(mask) for mask in (positive, ~positive)], axis=1)


def _runs(score: Floats) -> tuple[Codes, Codes]:
    """Rows by decreasing score, and the last place of each run of equal scores.

    The order of the rows in a run makes no difference, so the sort need not be stable, which takes half the time.
    """
    order = np.argsort(-score)
    ordered = score[order]
    return order, np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
