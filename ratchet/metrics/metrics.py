"""Metrics, by which training stops and evaluation decides: one code for both.

They are sums over units, so that they can be resampled. Equal scores count as in random order, never as they come.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ratchet.contracts.gate import METRICS, family
from ratchet.contracts.training import Objective
from ratchet.metrics.ranking import mrr, ndcg

Floats = NDArray[np.float64]

EPSILON = 1e-7  # as far as a probability may be from 0 and 1 before its logarithm is taken


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """A metric of one model, in a form that can be resampled.

    value: the metric on all rows. sums: [units, k], additive over units. combine: sums [..., k] to the metric [...];
    of the column sums it gives `value`. effective: how many units carry information (for AUC, of the rarer label).
    """

    value: float
    sums: Floats
    combine: Callable[[Floats], Floats]
    effective: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """What models are measured on. label: [rows]. offsets: [groups + 1] into the rows, or None without groups."""

    label: Floats
    offsets: NDArray[np.int64] | None

    def select(self, mask: NDArray[np.bool_]) -> "Rows":
        """Some of the rows; groups that lose all of theirs vanish."""
        if self.offsets is None:
            return Rows(label=self.label[mask], offsets=None)
        sizes = np.add.reduceat(mask, self.offsets[:-1], dtype=np.int64) if len(mask) else np.zeros(0, np.int64)
        return Rows(label=self.label[mask], offsets=np.concatenate([[0], np.cumsum(sizes[sizes > 0])]))

    def by_unit(self, values: Floats) -> Floats:
        """Sums of row values [rows, k] over each unit [units, k]."""
        return values if self.offsets is None else np.add.reduceat(values, self.offsets[:-1], axis=0)


def names(objective: Objective, decisive: str) -> tuple[str, ...]:
    """The metrics worth showing for an objective, the decisive one first; ranks are cut where it is cut, or at 10."""
    cut = decisive.partition("@")[2] or "10"
    shown = [name.replace("@K", f"@{cut}") for name in METRICS[objective]]
    if objective == "ranking":
        shown.remove("logloss")  # the scores of a listwise loss are no probabilities
    return tuple(dict.fromkeys([decisive, *shown]))


def measure(metric: str, rows: Rows, score: Floats) -> Measurement | None:
    """One metric of one model, or None where it has no value on these rows, say without a positive.

    score: [rows], for multiclass [rows, classes] of probabilities; probabilities for a binary logloss.
    """
    if not len(rows.label):
        return None
    name = family(metric)
    if name in {"ndcg@K", "mrr@K"}:
        if rows.offsets is None:
            return None
        values = (ndcg if name == "ndcg@K" else mrr)(rows.label, score, rows.offsets, int(metric.partition("@")[2]))
        values = values[~np.isnan(values)]
        return _mean(values, np.ones(len(values))) if len(values) else None
    return _POOLED[name](rows, score)


def constant(objective: Objective, metric: str, label: Floats) -> Floats:
    """What the best scorer says that knows the labels' distribution, and nothing of the rows."""
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
    """1 for a right guess; of classes that are equally likely each is guessed equally often."""
    best = score == score.max(axis=1, keepdims=True)
    classes = label.astype(np.int64)
    known = classes < score.shape[1]
    right = best[np.arange(len(score)), np.where(known, classes, 0)] & known
    return np.asarray(right / best.sum(axis=1), dtype=np.float64)


def _runs(score: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Rows by falling score, the run of equal scores that each is in, and the last place of each run."""
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
    """Average precision, resampled through the influence (influence) that each row has on it."""
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
    """A metric near which a resample lies at `value` plus the weighted influences of its units, which sum up to nothing."""
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
