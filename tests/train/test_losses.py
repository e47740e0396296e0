"""Each loss equals its definition, computed the slow way."""

from itertools import combinations
from math import exp, log1p, log2

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tasks.train.data import Rows
from tasks.train.losses import LOSSES, MASSES, TRUNCATION, lambda_ndcg


def slow_lambda(groups: list[list[tuple[float, float]]]) -> float:
    """Pair by pair, from the ranks of a stable sort."""
    losses = []
    for group in groups:
        order = sorted(range(len(group)), key=lambda row: -group[row][0])
        gains = sorted((label for _, label in group), reverse=True)
        ideal = sum(gain / log2(rank + 2) for rank, gain in enumerate(gains))
        if not ideal:
            continue
        total = 0.0
        for one, other in combinations(range(len(group)), 2):
            (score, label), (second, less) = group[order[one]], group[order[other]]
            if one < TRUNCATION and label != less:
                lead = (score - second) * (1 if label > less else -1)
                swap = abs(1 / log2(one + 2) - 1 / log2(other + 2)) * abs(label - less)
                total += (log1p(exp(-abs(lead))) + max(-lead, 0.0)) * swap / ideal
        losses.append(total)
    return sum(losses) / max(len(losses), 1)


GROUPS = st.lists(
    st.lists(st.tuples(st.floats(-20, 20), st.sampled_from([0.0, 1.0, 2.0])), min_size=1, max_size=6),
    min_size=1,
    max_size=8,
)


def flat(groups: list[list[tuple[float, float]]], weight: list[float] | None = None) -> Rows:
    """Groups of (score, label) as rows whose only number is the score."""
    pairs = torch.tensor([pair for group in groups for pair in group])
    return Rows(
        numeric=pairs[:, :1],
        places=torch.zeros(len(pairs), 0, dtype=torch.int64),
        label=pairs[:, 1],
        weight=None if weight is None else torch.tensor(weight),
        sizes=torch.tensor([len(group) for group in groups]),
    )


def loss_of(rows: Rows) -> torch.Tensor:
    assert rows.sizes is not None
    group = torch.repeat_interleave(torch.arange(len(rows.sizes)), rows.sizes)
    return lambda_ndcg(rows.numeric[:, 0], rows.label, rows.weight, group)


@given(GROUPS)
def test_the_loss_of_a_ranking_is_what_ndcg_loses_by_each_pair_times_softplus(
    groups: list[list[tuple[float, float]]],
) -> None:
    exact = [[(float(torch.tensor(score)), label) for score, label in group] for group in groups]
    assert float(loss_of(flat(groups))) == pytest.approx(slow_lambda(exact), abs=1e-4)


def test_pairs_beyond_the_truncation_cost_nothing() -> None:
    draw = torch.Generator().manual_seed(0)
    group = [(float(score), float(place % 3 == 0)) for place, score in enumerate(torch.randn(90, generator=draw))]
    assert float(loss_of(flat([group]))) == pytest.approx(slow_lambda([group]), rel=1e-4)


def test_a_better_order_costs_less_and_the_gradient_leads_to_it() -> None:
    bad = flat([[(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0)]])
    good = flat([[(0.0, 0.0), (1.0, 1.0), (-1.0, 0.0)]])
    assert float(loss_of(good)) < float(loss_of(bad))
    bad.numeric.requires_grad_()
    loss_of(bad).backward()  # type: ignore[no-untyped-call]  # torch has no types here
    assert bad.numeric.grad is not None
    first, second, third = bad.numeric.grad[:, 0].tolist()
    assert second < 0 < first
    assert third >= 0


@given(GROUPS, st.data())
def test_a_query_of_weight_two_counts_as_that_query_twice(
    groups: list[list[tuple[float, float]]], data: st.DataObject
) -> None:
    weights = data.draw(st.lists(st.integers(0, 3), min_size=len(groups), max_size=len(groups)))
    repeated = [group for group, weight in zip(groups, weights, strict=True) for _ in range(weight)]
    weighted = flat(groups, [float(weight) for group, weight in zip(groups, weights, strict=True) for _ in group])
    counted = flat(repeated or [[(0.0, 0.0)]])
    assert float(loss_of(weighted)) == pytest.approx(float(loss_of(counted)), rel=1e-5, abs=1e-6)
    assert MASSES["ranking"](weighted) == pytest.approx(MASSES["ranking"](counted))


def test_the_weight_of_a_row_multiplies_its_gain() -> None:
    """As an inverse propensity: a click of weight 3 is a gain of 3, and the query counts as its labels weigh."""
    scores = [0.3, -1.0, 2.0]
    weighted = flat([[(score, label) for score, label in zip(scores, (1.0, 1.0, 0.0), strict=True)]], [3.0, 1.0, 99.0])
    gains = flat([[(score, gain) for score, gain in zip(scores, (3.0, 1.0, 0.0), strict=True)]])
    assert float(loss_of(weighted)) == pytest.approx(float(loss_of(gains)), rel=1e-6)
    assert MASSES["ranking"](weighted) == 2.0  # the weight of a row without a click has no effect


def test_a_ranking_without_groups_is_a_bug() -> None:
    with pytest.raises(ValueError, match="needs groups"):
        lambda_ndcg(torch.zeros(2), torch.zeros(2), None, None)


@pytest.mark.parametrize("objective", ["binary", "regression", "multiclass"])
def test_a_row_of_weight_two_counts_as_two_rows(objective: str) -> None:
    loss = LOSSES[objective]
    scores = torch.randn(3, 4) if objective == "multiclass" else torch.randn(3)
    label = torch.tensor([0, 2, 1]) if objective == "multiclass" else torch.tensor([0.0, 1.0, 1.0])
    twice = torch.tensor([0, 1, 1, 2])
    weighted = loss(scores, label, torch.tensor([1.0, 2.0, 1.0]), None)
    assert float(weighted) == pytest.approx(float(loss(scores[twice], label[twice], None, None)), rel=1e-5)
