"""The metrics. Training uses them for early stopping, and evaluation for its decision.

They are sums over units, so that they can be resampled. Rows with equal scores count as if in random order.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ratchet.contracts.gate import METRICS, family
from ratchet.contracts.training import Objective
from ratchet.metrics.ranking import mrr, ndcg

Floats = NDArray[np.float64]

EPSILON = 1e-7  # the smallest distance of a probability from 0 and 1, so that its logarithm is finite


OF_RANKS = frozenset({"ndcg@K", "mrr@K"})
"""The metrics of the order of the rows in a group."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """A metric of one model, as sums that can be resampled.

    value: the metric on all rows. sums: [units, k], additive over units. combine: computes the metric [...] from sums
    [..., k]; the sums of the columns give `value`. effective: the number of units that carry information (for AUC,
    those with the rarer label).
    """

    value: float
    sums: Floats
    combine: Callable[[Floats], Floats]
    effective: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """The rows to measure models on. label: [rows]. offsets: [groups + 1] into the rows, or None without groups."""

    label: Floats
    offsets: NDArray[np.int64] | None

    def select(self, mask: NDArray[np.bool_]) -> "Rows":
        """Select rows by a mask; groups without a row are dropped."""
        if self.offsets is None:
            return Rows(label=self.label[mask], offsets=None)
        sizes = np.add.reduceat(mask, self.offsets[:-1], dtype=np.int64) if len(mask) else np.zeros(0, np.int64)
        return Rows(label=self.label[mask], offsets=np.concatenate([[0], np.cumsum(sizes[sizes > 0])]))

    def whole_groups(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """A mask of all rows of each group of which a mask has a row; without groups the mask itself."""
        if self.offsets is None or not len(mask):
            return mask
        return np.repeat(np.logical_or.reduceat(mask, self.offsets[:-1]), np.diff(self.offsets))

    def by_unit(self, values: Floats) -> Floats:
        """The sums of row values [rows, k] over each unit [units, k]."""
        return values if self.offsets is None else np.add.reduceat(values, self.offsets[:-1], axis=0)


def names(objective: Objective, decisive: str) -> tuple[str, ...]:
    """The metrics to show for an objective, the decisive one first, with its cutoff of ranks, or 10."""
    cut = decisive.partition("@")[2] or "10"
    shown = [name.replace("@K", f"@{cut}") for name in METRICS[objective]]
    if objective == "ranking":
        shown.remove("logloss")  # the scores of a listwise loss are not probabilities
    return tuple(dict.fromkeys([decisive, *shown]))


def measure(metric: str, rows: Rows, score: Floats) -> Measurement | None:
    """Measure one metric of one model. None if it has no value on these rows, for example without a positive label.

    score: [rows], for multiclass [rows, classes] of probabilities; probabilities for a binary logloss.
    """
    if not len(rows.label):
        return None
    name = family(metric)
    if name in OF_RANKS:
        if rows.offsets is None:
            return None
        values = (ndcg if name == "ndcg@K" else mrr)(rows.label, score, rows.offsets, int(metric.partition("@")[2]))
        values = values[~np.isnan(values)]
        return _mean(values, np.ones(len(values))) if len(values) else None
    return _POOLED[name](rows, score)


def constant(objective: Objective, metric: str, label: Floats) -> Floats:
    """The scores of the best constant scorer, which knows only the distribution of the labels."""
    if objective == "multiclass":
        shares = np.bincount(label.astype(np.int64)) / len(label)
        return np.broadcast_to(shares, (len(label), len(shares)))
    level = np.median(label) if metric == "mae" else label.mean()
    return np.full(len(label), level)


def _mean(total: Floats, count: Floats) -> Measurement:
    sums = np.stack([total, count], axis=1)
    whole = sums.sum(axis=0)
    return Measurement(value=float(whole[0] / whole[1]), sums=sums, combine=_ratio, effective=len(total))


def _ratio(sums: Floats) -> Floats:
    return np.asarray(sums[..., 0] / sums[..., 1])


def _root(sums: Floats) -> Floats:
    return np.asarray(np.sqrt(sums[..., 0] / sums[..., 1]))


def _mean_of(loss: Callable[[Floats, Floats], Floats]) -> Callable[[Rows, Floats], Measurement]:
    def measured(rows: Rows, score: Floats) -> Measurement:
        sums = rows.by_unit(np.stack([loss(rows.label, score), np.ones(len(rows.label))], axis=1))
        return _mean(sums[:, 0], sums[:, 1])

    return measured


def _rmse(rows: Rows, score: Floats) -> Measurement:
    squares = _mean_of(lambda label, guess: (label - guess) ** 2)(rows, score)
    return Measurement(value=squares.value**0.5, sums=squares.sums, combine=_root, effective=squares.effective)


def _logloss(label: Floats, score: Floats) -> Floats:
    if score.ndim == 1:
        sure = np.clip(score, EPSILON, 1 - EPSILON)
        return np.asarray(-np.where(label > 0, np.log(sure), np.log1p(-sure)))
    classes = label.astype(np.int64)
    known = classes < score.shape[1]
    chance = np.where(known, score[np.arange(len(score)), np.where(known, classes, 0)], 0.0)
    return np.asarray(-np.log(np.clip(chance, EPSILON, 1.0)))


def _hits(label: Floats, score: Floats) -> Floats:
    """1 for a correct class; a share of it if classes with equal scores include the correct one."""
    best = score == score.max(axis=1, keepdims=True)
    classes = label.astype(np.int64)
    known = classes < score.shape[1]
    right = best[np.arange(len(score)), np.where(known, classes, 0)] & known
    return np.asarray(right / best.sum(axis=1), dtype=np.float64)


def _runs(score: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Rows by decreasing score, the run of equal scores of each row, and the last place of each run."""
    order = np.argsort(-score, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(score[order]) != 0, True))
    run = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=-1))
    return order, run, ends


def _auc(rows: Rows, score: Floats) -> Measurement | None:
    """The area under the ROC curve, resampled through its placement values (DeLong et al. 1988), by unit."""
    positive = rows.label > 0
    positives, negatives = int(positive.sum()), int((~positive).sum())
    if not positives or not negatives:
        return None
    order, run, ends = _runs(score)
    above = np.cumsum(positive[order])[ends]
    before = np.concatenate([[0], above[:-1]])
    below = negatives - np.cumsum(~positive[order])[ends]
    beaten = below + np.diff(negatives - below, prepend=0) / 2  # negatives under a positive of this run, ties half
    beating = (before + above) / 2  # positives above a negative of this run, ties half
    place = np.empty(len(score))
    place[order] = np.where(positive[order], beaten[run] / negatives, beating[run] / positives)
    value = float(place[positive].mean())
    influence = (place - value) / np.where(positive, positives, negatives)
    return _from_influence(value, influence, rows, positive)


def _pr_auc(rows: Rows, score: Floats) -> Measurement | None:
    """Average precision, resampled through the influence of each row on it."""
    positive = rows.label > 0
    positives = int(positive.sum())
    if not positives:
        return None
    order, run, ends = _runs(score)
    hits = np.cumsum(positive[order])[ends].astype(np.float64)
    seen = ends + 1.0
    gained = np.diff(hits, prepend=0.0)
    value = float((gained * hits / seen).sum() / positives)
    onward = np.cumsum((gained / seen)[::-1])[::-1]
    drag = np.cumsum((gained * hits / seen**2)[::-1])[::-1]
    is_positive = positive[order]
    influence = np.empty(len(score))
    influence[order] = (is_positive * ((hits / seen)[run] - value + onward[run]) - drag[run]) / positives
    return _from_influence(value, influence, rows, positive)


def _from_influence(value: float, influence: Floats, rows: Rows, positive: NDArray[np.bool_]) -> Measurement:
    """A metric whose resample is about `value` plus the weighted influences of its units; these add up to zero."""
    sums = rows.by_unit(np.stack([influence, positive, ~positive], axis=1))
    effective = int(min((sums[:, 1] > 0).sum(), (sums[:, 2] > 0).sum()))
    return Measurement(value=value, sums=sums[:, :1], combine=lambda total: value + total[..., 0], effective=effective)


_POOLED: dict[str, Callable[[Rows, Floats], Measurement | None]] = {
    "auc": _auc,
    "pr_auc": _pr_auc,
    "logloss": _mean_of(_logloss),
    "accuracy": _mean_of(_hits),
    "mae": _mean_of(lambda label, score: np.abs(label - score)),
    "rmse": _rmse,
}
