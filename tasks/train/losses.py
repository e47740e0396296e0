"""The loss of each objective, from raw network outputs: a mean over rows, or over groups for a ranking."""

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

    A group without a positive label has no order to learn, and is left out of the mean.
    """
    if group is None:
        raise ValueError("a ranking needs groups")
    groups = int(group[-1]) + 1
    highest = torch.full((groups,), -torch.inf, device=scores.device).scatter_reduce(0, group, scores.detach(), "amax")
    shifted = scores - highest[group]
    total = torch.zeros(groups, device=scores.device).index_add(0, group, shifted.exp())
    target = label if weight is None else label * weight
    relevance = torch.zeros(groups, device=scores.device).index_add(0, group, target)
    share = target / relevance.clamp(min=1e-12)[group]
    surprise = share * (total.log()[group] - shifted)
    return surprise.sum() / (relevance > 0).sum().clamp(min=1)


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
    """The number of groups with a positive label, as in `listwise`."""
    if rows.sizes is None:
        raise ValueError("a ranking needs groups")
    target = rows.label if rows.weight is None else rows.label * rows.weight
    group = torch.repeat_interleave(torch.arange(len(rows.sizes)), rows.sizes)
    return float((torch.zeros(len(rows.sizes)).index_add(0, group, target) > 0).sum())


MASSES: dict[str, Mass] = {
    "ranking": _mass_of_groups,
    "binary": _mass_of_weights,
    "regression": _mass_of_weights,
    "multiclass": _mass_of_weights,
}
