"""The metrics. Training uses them for early stopping, and evaluation for its decision.

They are sums over units, so that they can be resampled. Rows with equal scores count as if in random order. A row of
weight 2 counts as that row twice, and as one unit: a weight says how much a row matters, not how often it was observed.
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
    those with the rarer label); of units with unequal weights, the number of equal ones that would vary as much.
    """

    value: float
    sums: Floats
    combine: Callable[[Floats], Floats]
    effective: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """The rows to measure models on.

    label: [rows]. offsets: [groups + 1] into the rows, or None without groups. weight: [rows], from 0 up; None is 1 for
    each row.
    """

    label: Floats
    offsets: NDArray[np.int64] | None
    weight: Floats | None = None

    def select(self, mask: NDArray[np.bool_]) -> "Rows":
        """Select rows by a mask; groups without a row are dropped."""
        weight = None if self.weight is None else self.weight[mask]
        if self.offsets is None:
            return Rows(label=self.label[mask], offsets=None, weight=weight)
        sizes = np.add.reduceat(mask, self.offsets[:-1], dtype=np.int64) if len(mask) else np.zeros(0, np.int64)
        offsets = np.concatenate([[0], np.cumsum(sizes[sizes > 0])])
        return Rows(label=self.label[mask], offsets=offsets, weight=weight)

    def whole_groups(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """A mask of all rows of each group of which a mask has a row; without groups the mask itself."""
        if self.offsets is None or not len(mask):
            return mask
        return np.repeat(np.logical_or.reduceat(mask, self.offsets[:-1]), np.diff(self.offsets))

    def by_unit(self, values: Floats) -> Floats:
        """The sums of row values [rows, k] over each unit [units, k]."""
        return values if self.offsets is None else np.add.reduceat(values, self.offsets[:-1], axis=0)

    @property
    def weights(self) -> Floats:
        """The weight of each row [rows]."""
        return np.ones(len(self.label)) if self.weight is None else self.weight

    def weights_of_groups(self) -> Floats:
        """The weight of each group in a ranking [groups]: the mean weight of its labels; 0 without a positive label.

        Rows of one weight give their group that weight. The loss of a ranking weighs its groups by the same.
        """
        labels = self.by_unit(self.label)
        return np.divide(self.by_unit(self.label * self.weights), labels, out=np.zeros(len(labels)), where=labels > 0)


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
    if not (rows.weights > 0).any():
        return None
    name = family(metric)
    if name in OF_RANKS:
        if rows.offsets is None:
            return None
        values = (ndcg if name == "ndcg@K" else mrr)(rows.label, score, rows.offsets, int(metric.partition("@")[2]))
        weight = np.where(np.isnan(values), 0.0, rows.weights_of_groups())
        values, weight = values[weight > 0], weight[weight > 0]
        return _mean(values * weight, weight, weight) if len(values) else None
    return _POOLED[name](rows, score)


def constant(objective: Objective, metric: str, rows: Rows) -> Floats:
    """The scores of the best constant scorer, which knows only the distribution of the labels."""
    label = rows.label
    weight = rows.weights if (rows.weights > 0).any() else np.ones(len(label))
    if objective == "multiclass":
        shares = np.bincount(label.astype(np.int64), weight) / weight.sum()
        return np.broadcast_to(shares, (len(label), len(shares)))
    level = _median(label, weight) if metric == "mae" else np.average(label, weights=weight)
    return np.full(len(label), level)


def _median(label: Floats, weight: Floats) -> float:
    """The middle of the labels, each as often as its weight says."""
    order = np.argsort(label, kind="stable")
    below = np.cumsum(weight[order])
    lower, upper = (np.searchsorted(below, below[-1] / 2, side=side) for side in ("left", "right"))
    return float(label[order[lower]] + label[order[min(upper, len(order) - 1)]]) / 2


def _mean(total: Floats, count: Floats, weight: Floats) -> Measurement:
    """The mean of a value over units: its sums and the weights that these are sums over; weight: of each unit."""
    sums = np.stack([total, count], axis=1)
    whole = sums.sum(axis=0)
    return Measurement(value=float(whole[0] / whole[1]), sums=sums, combine=_ratio, effective=_effective(weight))


def _effective(weight: Floats) -> int:
    """The number of units of equal weight that vary as much as these (Kish 1965): all of them if all weigh the same."""
    weight = weight[weight > 0]
    if not len(weight):
        return 0
    share = weight / weight.max()
    return int(share.sum() ** 2 / np.square(share).sum() + 1e-9)


def _weights_of_units(rows: Rows, mask: NDArray[np.bool_]) -> Floats:
    """The mean weight of the rows of each unit that a mask selects; 0 for a unit without one."""
    sums = rows.by_unit(np.stack([rows.weights * mask, mask], axis=1))
    return np.divide(sums[:, 0], sums[:, 1], out=np.zeros(len(sums)), where=sums[:, 1] > 0)


def _ratio(sums: Floats) -> Floats:
    return np.asarray(sums[..., 0] / sums[..., 1])


def _root(sums: Floats) -> Floats:
    return np.asarray(np.sqrt(sums[..., 0] / sums[..., 1]))


def _mean_of(loss: Callable[[Floats, Floats], Floats]) -> Callable[[Rows, Floats], Measurement]:
    def measured(rows: Rows, score: Floats) -> Measurement:
        sums = rows.by_unit(np.stack([loss(rows.label, score) * rows.weights, rows.weights], axis=1))
        return _mean(sums[:, 0], sums[:, 1], _weights_of_units(rows, np.ones(len(rows.label), bool)))

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
    ours = np.where(rows.label > 0, rows.weights, 0.0)
    theirs = rows.weights - ours
    positives, negatives = float(ours.sum()), float(theirs.sum())
    if not positives or not negatives:
        return None
    order, run, ends = _runs(score)
    above = np.cumsum(ours[order])[ends]
    before = np.concatenate([[0], above[:-1]])
    below = negatives - np.cumsum(theirs[order])[ends]
    beaten = below + np.diff(negatives - below, prepend=0) / 2  # negatives under a positive of this run, ties half
    beating = (before + above) / 2  # positives above a negative of this run, ties half
    positive = rows.label > 0
    place = np.empty(len(score))
    place[order] = np.where(positive[order], beaten[run] / negatives, beating[run] / positives)
    value = float((place * ours).sum() / positives)
    influence = (place - value) * np.where(positive, ours / positives, theirs / negatives)
    return _from_influence(value, influence, rows, positive)


def _pr_auc(rows: Rows, score: Floats) -> Measurement | None:
    """Average precision, resampled through the influence of each row on it."""
    positive = rows.label > 0
    ours = np.where(positive, rows.weights, 0.0)
    positives = float(ours.sum())
    if not positives:
        return None
    order, run, ends = _runs(score)
    hits = np.cumsum(ours[order])[ends]
    seen = np.cumsum(rows.weights[order])[ends]
    gained = np.diff(hits, prepend=0.0)
    some = seen > 0  # rows of weight 0 alone are on top
    hit_rate = np.divide(hits, seen, out=np.zeros(len(seen)), where=some)
    value = float((gained * hit_rate).sum() / positives)
    onward = np.cumsum(np.divide(gained, seen, out=np.zeros(len(seen)), where=some)[::-1])[::-1]
    drag = np.cumsum(np.divide(gained * hit_rate, seen, out=np.zeros(len(seen)), where=some)[::-1])[::-1]
    is_positive = positive[order]
    influence = np.empty(len(score))
    influence[order] = (is_positive * (hit_rate[run] - value + onward[run]) - drag[run]) / positives
    return _from_influence(value, influence * rows.weights, rows, positive)


def _from_influence(value: float, influence: Floats, rows: Rows, positive: NDArray[np.bool_]) -> Measurement:
    """A metric whose resample is about `value` plus the weighted influences of its units; these add up to zero."""
    sums = rows.by_unit(influence[:, None])
    effective = min(_effective(_weights_of_units(rows, mask)) for mask in (positive, ~positive))
    return Measurement(value=value, sums=sums, combine=lambda total: value + total[..., 0], effective=effective)


_POOLED: dict[str, Callable[[Rows, Floats], Measurement | None]] = {
    "auc": _auc,
    "pr_auc": _pr_auc,
    "logloss": _mean_of(_logloss),
    "accuracy": _mean_of(_hits),
    "mae": _mean_of(lambda label, score: np.abs(label - score)),
    "rmse": _rmse,
}
