"""Metrics of a choice among classes."""

import numpy as np

from ratchet.metrics.measurement import Measurement, mean_of_rows
from ratchet.metrics.rows import Floats, Rows


def accuracy(rows: Rows, score: Floats) -> Measurement:
    """The share of rows whose most probable class is the right one."""
    best, classes = score.max(axis=1), rows.label.astype(np.int64)
    known = classes < score.shape[1]
    right = known & (score[np.arange(len(score)), np.where(known, classes, 0)] == best)
    equal = (score[right] == best[right, None]).sum(axis=1)
    share = np.zeros(len(score))
    share[right] = 1 / equal
    return mean_of_rows(share, rows)


def macro_f1(rows: Rows, score: Floats) -> Measurement:
    """The mean over classes of the harmonic mean of precision and recall (van Rijsbergen 1979).

    A class counts if a row has it or a model chose it; one that is in no label and never chosen is left out. Of classes
    with equal scores each is chosen in part.
    """
    width = max(score.shape[1], int(rows.label.max(initial=0)) + 1)
    chosen = np.zeros((len(score), width))
    chosen[:, : score.shape[1]] = _chosen(score)
    actual = _onehot(rows.label, width)
    columns = np.hstack([chosen * actual, chosen + actual]) * rows.weights[:, None]
    sums = rows.by_unit(columns)
    present = actual.any(axis=0)
    information = np.stack([rows.weights_of_units(mask) for mask in actual.T[present].astype(bool)], axis=1)
    return Measurement(
        value=float(_f1(columns.sum(axis=0))), sums=sums, combine=_f1, information=information, tailed=False
    )


def _f1(sums: Floats) -> Floats:
    """sums: of each class the rows that are right, then those that are chosen plus those that have it."""
    width = sums.shape[-1] // 2
    right, either = sums[..., :width], sums[..., width:]
    some = either > 0
    each = np.divide(2 * right, either, out=np.zeros_like(right), where=some)
    return np.asarray(each.sum(axis=-1) / np.maximum(some.sum(axis=-1), 1))


def _chosen(score: Floats) -> Floats:
    """1 for the most probable class of each row [rows, classes]; a share of it where several are equal."""
    best = score == score.max(axis=1, keepdims=True)
    return np.asarray(best / best.sum(axis=1, keepdims=True))


def _onehot(label: Floats, width: int) -> Floats:
    """1 for the class of each row [rows, width]; no class is 1 where a model does not know it."""
    return np.asarray(label.astype(np.int64)[:, None] == np.arange(width), dtype=np.float64)
