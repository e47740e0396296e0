"""The loss of each objective: a mean over rows, or over groups for a ranking. All take raw network outputs."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from tasks.train.data import Rows

Loss = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Tensor]
"""(scores, labels, weights or None, group of each row or None) -> a scalar."""

Mass = Callable[[Rows], float]
"""How much of what a loss is a mean over is in some rows. Parts of a batch, each weighed by its share of the mass, add
up to the loss of the whole batch."""


def listwise(scores: Tensor, label: Tensor, weight: Tensor | None, group: Tensor | None) -> Tensor:
    """Softmax cross-entropy over each group (ListNet's top-one loss, Cao et al. 2007), mean over groups.

    A group without a positive label says nothing about order, and counts nothing.
    """
    if group is None:
        raise ValueError("a ranking needs groups")
    groups = int(group[-1]) + 1
    highest = torch.full((groups,), -torch.inf, device=scores.device).scatter_reduce(0, group, scores.detach(), "amax")
    shifted = scores - highest[group]
    total = torch.zeros(groups, device=scores.device).index_add(0, group, shifted.exp())
    wanted = label if weight is None else label * weight
    relevance = torch.zeros(groups, device=scores.device).index_add(0, group, wanted)
    share = wanted / relevance.clamp(min=1e-12)[group]
    surprise = share * (total.log()[group] - shifted)
    return surprise.sum() / (relevance > 0).sum().clamp(min=1)


def _mean(losses: Tensor, weight: Tensor | None) -> Tensor:
    return losses.mean() if weight is None else (losses * weight).sum() / weight.sum().clamp(min=1e-12)


def binary(scores: Tensor, label: Tensor, weight: Tensor | None, _group: Tensor | None) -> Tensor:
    """Cross-entropy of logits."""
    return _mean(functional.binary_cross_entropy_with_logits(scores, label, reduction="none"), weight)


def regression(scores: Tensor, label: Tensor, weight: Tensor | None, _group: Tensor | None) -> Tensor:
    """Squared error; the loop hands over standardised labels."""
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
    """Each row counts the same: also what a loss of the pipeline's own is taken to be a mean over."""
    return float(len(rows))


def _mass_of_weights(rows: Rows) -> float:
    return mass_of_rows(rows) if rows.weight is None else float(rows.weight.double().sum())


def _mass_of_groups(rows: Rows) -> float:
    """Groups that `listwise` counts."""
    if rows.sizes is None:
        raise ValueError("a ranking needs groups")
    wanted = rows.label if rows.weight is None else rows.label * rows.weight
    group = torch.repeat_interleave(torch.arange(len(rows.sizes)), rows.sizes)
    return float((torch.zeros(len(rows.sizes)).index_add(0, group, wanted) > 0).sum())


MASSES: dict[str, Mass] = {
    "ranking": _mass_of_groups,
    "binary": _mass_of_weights,
    "regression": _mass_of_weights,
    "multiclass": _mass_of_weights,
}
