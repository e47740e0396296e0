"""The metrics by name. Training uses them for early stopping, and evaluation for its decision.

They are functions of sums over units, so that they can be resampled. Rows with equal scores count as if in random
order. A row of weight 2 counts as that row twice, and as one unit: a weight says how much a row matters, not how often
it was observed.
"""

from collections.abc import Callable

import numpy as np

from ratchet.contracts.gate import METRICS, family
from ratchet.contracts.training import Objective
from ratchet.metrics import calibration, classes, curves, losses
from ratchet.metrics.measurement import Measurement, mean_of_groups
from ratchet.metrics.ranking import average_precision, mrr, ndcg, precision, recall
from ratchet.metrics.rows import Codes, Floats, Rows

__all__ = [
    "OF_RANKS",
    "Codes",
    "Floats",
    "Measure",
    "Measurement",
    "Rows",
    "constant",
    "measure",
    "names",
    "quantile",
    "quantile_of",
]

_OF_RANKS: dict[str, Callable[[Floats, Floats, Codes, int], Floats]] = {
    "ndcg@K": ndcg,
    "mrr@K": mrr,
    "map@K": average_precision,
    "precision@K": precision,
    "recall@K": recall,
}
OF_RANKS = frozenset(_OF_RANKS)
"""The metrics of the order of the rows in a group."""

_POOLED: dict[str, Callable[[Rows, Floats], Measurement | None]] = {
    "auc": curves.auc,
    "pr_auc": curves.pr_auc,
    "logloss": losses.logloss,
    "brier": losses.brier,
    "ece": calibration.ece,
    "accuracy": classes.accuracy,
    "macro_f1": classes.macro_f1,
    "mae": losses.mae,
    "rmse": losses.rmse,
    "r2": losses.r2,
}


Measure = Callable[[str, Rows, Floats], Measurement | None]
"""Measures a metric, by its name, on rows with their scores; None if it has no value."""


def names(objective: Objective, decisive: str) -> tuple[str, ...]:
    """The metrics to show for an objective, the decisive one first, with its cutoff of ranks, or 10."""
    cut = decisive.partition("@")[2] if family(decisive) in OF_RANKS else "10"
    shown = [name.replace("@K", f"@{cut}") for name in METRICS[objective] if not name.endswith("@Q")]
    if objective == "ranking":
        shown.remove("logloss")  # the scores of a listwise loss are not probabilities
    return tuple(dict.fromkeys([decisive, *shown]))


def measure(metric: str, rows: Rows, score: Floats) -> Measurement | None:
    """Measure one metric of one model. None if it has no value on these rows, for example without a positive label.

    score: [rows], for multiclass [rows, classes] of probabilities; probabilities for a binary logloss.
    """
    if not (rows.weights > 0).any():
        return None
    name, argument = family(metric), metric.partition("@")[2]
    if name in _OF_RANKS:
        if rows.offsets is None:
            return None
        return mean_of_groups(_OF_RANKS[name](rows.label, score, rows.offsets, int(argument)), rows)
    if name == "pinball@Q":
        return losses.pinball(rows, score, float(argument))
    return _POOLED[name](rows, score)


def constant(objective: Objective, metric: str, rows: Rows) -> Floats:
    """The scores of the best constant scorer, which knows only the distribution of the labels."""
    label = rows.label
    weight = rows.weights if (rows.weights > 0).any() else np.ones(len(label))
    if objective == "multiclass":
        shares = np.bincount(label.astype(np.int64), weight) / weight.sum()
        return np.broadcast_to(shares, (len(label), len(shares)))
    share = quantile_of(metric)
    level = np.average(label, weights=weight) if share is None else quantile(label, weight, share)
    return np.full(len(label), level)


def quantile_of(metric: str) -> float | None:
    """Which quantile of the labels is the best constant by a metric, or None where it is their mean."""
    return float(metric.partition("@")[2] or 0.5) if family(metric) in {"mae", "pinball@Q"} else None


def quantile(label: Floats, weight: Floats, share: float) -> float:
    """The label that a share of the labels lies below, each as often as its weight says."""
    order = np.argsort(label, kind="stable")
    below = np.cumsum(weight[order])
    lower, upper = (np.searchsorted(below, below[-1] * share, side=side) for side in ("left", "right"))
    return float(label[order[lower]] + label[order[min(upper, len(order) - 1)]]) / 2
