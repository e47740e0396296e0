"""The loss of each objective, from raw network outputs: a mean over rows, or over groups for a ranking.

A row of weight 2 counts as that row twice, a group whose rows have weight 2 as that group twice.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from tasks.train.data import Rows

Loss = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Tensor]
"""(scores, labels, weights or None, group of each row or None) -> a scalar."""

Mass = Callable[[Rows], float]
"""The size of some rows in the unit that a loss is a mean over: rows, their weights, or groups. The losses of the parts
of a batch, each times its share of the mass, sum to the loss of the whole batch."""


def listwise(scores: Tensor, label: Tensor, weight: Tensor | None, group: Tensor | None) -> Tensor:
    """Softmax cross-entropy over each group (ListNet's top-one loss, Cao et al. 2007), mean over groups.

    A group without a positive label has no order to learn, and is left out of the mean. The weight of a row multiplies
    what its label adds to the loss, as an inverse propensity does (Joachims et al. 2017), so the group counts in the
    mean as much as its labels weigh on average. The weight of a row without a positive label has no effect.
    """
    if group is None:
        raise ValueError("a ranking needs groups")
    groups = int(group[-1]) + 1
    highest = torch.full((groups,), -torch.inf, device=scores.device).scatter_reduce(0, group, scores.detach(), "amax")
    shifted = scores - highest[group]
    total = torch.zeros(groups, device=scores.device).index_add(0, group, shifted.exp())
    relevance = torch.zeros(groups, device=scores.device).index_add(0, group, label)
    share = label / torch.where(relevance > 0, relevance, 1.0)[group]
    surprise = share * (total.log()[group] - shifted)
    if weight is None:
        return surprise.sum() / (relevance > 0).sum().clamp(min=1)
    return (surprise * weight).sum() / (share * weight).sum().clamp(min=1e-12)


def _mean(losses: Tensor, weight: Tensor | None) -> Tensor:
    return losses.mean() if weight is None else (losses * weight).sum() / weight.sum().clamp(min=1e-12)


def binary(scores: Tensor, label: Tensor, weight: Tensor | None, _group: Tensor | None) -> Tensor:
    """Cross-entropy of logits."""
    return _mean(functional.binary_cross_entropy_with_logits(scores, label, reduction="none"), weight)


def regression(scores: Tensor, label: Tensor, weight: Tensor | None, _group: Tensor | None) -> Tensor:
    """Squared error of standardised labels."""
    return _mean((scores - label).square(), weight)


def multiclass(scores: Tensor, label: Tensor, weight: Tensor | None, _group: Tensor | None) -> Tensor:
    """Cross-entropy of logits [rows, classes]."""
    return _mean(functional.cross_entropy(scores, label, reduction="none"), weight)


LOSSES: dict[str, Loss] = {
    "ranking": listwise,
    "binary": binary,
    "regression": regression,
    "multiclass": multiclass,
}


def mass_of_rows(rows: Rows) -> float:
    """Each row counts one. A loss of the pipeline is taken to be a mean over rows, too."""
    return float(len(rows))


def _mass_of_weights(rows: Rows) -> float:
    return mass_of_rows(rows) if rows.weight is None else float(rows.weight.double().sum())


def _mass_of_groups(rows: Rows) -> float:
    """The number of groups with a positive label, or the sum of their weights, as in `listwise`."""
    if rows.sizes is None:
        raise ValueError("a ranking needs groups")
    group = torch.repeat_interleave(torch.arange(len(rows.sizes)), rows.sizes)
    label = rows.label.double()
    relevance = torch.zeros(len(rows.sizes), dtype=torch.float64).index_add(0, group, label)
    if rows.weight is None:
        return float((relevance > 0).sum())
    return float((rows.weight * label / torch.where(relevance > 0, relevance, 1.0)[group]).sum())


MASSES: dict[str, Mass] = {
    "ranking": _mass_of_groups,
    "binary": _mass_of_weights,
    "regression": _mass_of_weights,
    "multiclass": _mass_of_weights,
}
