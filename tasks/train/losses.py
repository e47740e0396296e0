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


TRUNCATION = 30
"""Ranks from which a loss of NDCG is learnt, as in LightGBM."""


def lambda_ndcg(scores: Tensor, label: Tensor, weight: Tensor | None, group: Tensor | None) -> Tensor:
    """LambdaRank's bound on what NDCG lacks to 1 (Burges 2010; Wang et al. 2018, "LambdaLoss"), mean over groups.

    Each pair of rows with other labels costs softplus of the difference of their scores, in the wrong order, times what
    NDCG would lose if the two changed places. One of a pair is among the first TRUNCATION. The gain of a row is its
    label, as in ratchet.metrics. A group without a positive label has no order to learn, and is left out of the mean.
    The weight of a row multiplies its gain, as an inverse propensity does (Agarwal et al. 2019), so the group counts in
    the mean as much as its labels weigh on average. The weight of a row without a positive label has no effect.
    """
    if group is None:
        raise ValueError("a ranking needs groups")
    gain = label if weight is None else label * weight
    ideal = _dcg(gain, gain, group)
    order, rank = _ranked(scores.detach(), group)
    score, gain, inside = scores[order], gain[order], group[order]
    above = torch.arange(TRUNCATION, device=scores.device)
    partner = torch.arange(len(order), device=scores.device).sub(rank).unsqueeze(1).add(above).clamp(max=len(order) - 1)
    swapped = (_discount(above) - _discount(rank).unsqueeze(1)).abs() * (gain[partner] - gain.unsqueeze(1)).abs()
    lead = score[partner] - score.unsqueeze(1)
    cost = functional.softplus(torch.where(gain[partner] > gain.unsqueeze(1), -lead, lead)) * swapped
    of_row = torch.where(above < rank.unsqueeze(1), cost, 0.0).sum(1) / torch.where(ideal > 0, ideal, 1.0)[inside]
    counts = _weight_of_groups(label, weight, group)
    return (of_row * counts[inside]).sum() / counts.sum().clamp(min=1e-12)


def _ranked(scores: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
    """(the rows by group and in it by falling score, the rank of each of them in its group, from 0)."""
    falling = torch.argsort(scores, descending=True, stable=True)
    order = falling[torch.argsort(group[falling], stable=True)]
    sizes = torch.zeros_like(group).index_add(0, group, torch.ones_like(group))
    return order, torch.arange(len(group), device=group.device) - (torch.cumsum(sizes, 0) - sizes)[group[order]]


def _discount(rank: Tensor) -> Tensor:
    return 1 / torch.log2(rank.float() + 2)


def _dcg(gain: Tensor, by: Tensor, group: Tensor) -> Tensor:
    """The discounted gain of each group, if its rows are ranked by `by`; as many entries as there are rows."""
    order, rank = _ranked(by, group)
    return torch.zeros_like(gain).index_add(0, group[order], gain[order] * _discount(rank))


def _weight_of_groups(label: Tensor, weight: Tensor | None, group: Tensor) -> Tensor:
    """What each group counts in the mean: 1 if it has a positive label, or the mean weight of its labels."""
    relevance = torch.zeros_like(label).index_add(0, group, label)
    if weight is None:
        return (relevance > 0).to(label.dtype)
    share = label / torch.where(relevance > 0, relevance, 1.0)[group]
    return torch.zeros_like(label).index_add(0, group, share * weight)


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


def of_members(loss: Loss) -> Loss:
    """The mean of a loss over the members of a network: scores [rows, members], or [rows, members, classes].

    Each member has the labels, weights and groups of all rows; so its groups are its own.
    """

    def mean(scores: Tensor, label: Tensor, weight: Tensor | None, group: Tensor | None) -> Tensor:
        members = scores.shape[1]

        def each(tensor: Tensor) -> Tensor:
            return tensor.repeat_interleave(members)

        of_group = None
        if group is not None:
            of_group = (group.unsqueeze(1) * members + torch.arange(members, device=group.device)).flatten()
        return loss(scores.flatten(0, 1), each(label), None if weight is None else each(weight), of_group)

    return mean


LOSSES: dict[str, Loss] = {
    "ranking": lambda_ndcg,
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
    """The number of groups with a positive label, or the sum of their weights, as in `lambda_ndcg`."""
    if rows.sizes is None:
        raise ValueError("a ranking needs groups")
    group = torch.repeat_interleave(torch.arange(len(rows.sizes)), rows.sizes)
    weight = None if rows.weight is None else rows.weight.double()
    return float(_weight_of_groups(rows.label.double(), weight, group).sum())


MASSES: dict[str, Mass] = {
    "ranking": _mass_of_groups,
    "binary": _mass_of_weights,
    "regression": _mass_of_weights,
    "multiclass": _mass_of_weights,
}
