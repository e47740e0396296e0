"""Each loss equals its definition, computed the slow way."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tasks.train.data import Rows
from tasks.train.losses import LOSSES, MASSES, listwise


def slow_listwise(scores: list[list[float]], labels: list[list[float]]) -> float:
    losses = []
    for group, target in zip(scores, labels, strict=True):
        if sum(target):
            logs = torch.log_softmax(torch.tensor(group, dtype=torch.float64), 0)
            losses.append(-sum(w * float(log) for w, log in zip(target, logs, strict=True)) / sum(target))
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
    return listwise(rows.numeric[:, 0], rows.label, rows.weight, group)


@given(GROUPS)
def test_the_listwise_loss_is_cross_entropy_over_each_group(groups: list[list[tuple[float, float]]]) -> None:
    scores = torch.tensor([score for group in groups for score, _ in group])
    labels = torch.tensor([label for group in groups for _, label in group])
    group = torch.repeat_interleave(torch.arange(len(groups)), torch.tensor([len(rows) for rows in groups]))
    expected = slow_listwise(
        [[score for score, _ in rows] for rows in groups], [[label for _, label in rows] for rows in groups]
    )
    assert float(listwise(scores, labels, None, group)) == pytest.approx(expected, abs=1e-4)


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


def test_the_weight_of_a_row_multiplies_what_its_label_adds_to_the_loss() -> None:
    """As an inverse propensity: clicks of weight 3 and 1 are three clicks and one, each beside all rows of its query."""
    scores = [0.3, -1.0, 2.0]
    both = [[(score, label) for score, label in zip(scores, (1.0, 1.0, 0.0), strict=True)]]
    clicks = [[(score, float(row == click)) for row, score in enumerate(scores)] for click in (0, 0, 0, 1)]
    found = loss_of(flat(both, [3.0, 1.0, 99.0]))  # the weight of a row without a click has no effect
    assert float(found) == pytest.approx(float(loss_of(flat(clicks))), rel=1e-6)
    assert MASSES["ranking"](flat(both, [3.0, 1.0, 99.0])) == 2.0


def test_a_ranking_without_groups_is_a_bug() -> None:
    with pytest.raises(ValueError, match="needs groups"):
        listwise(torch.zeros(2), torch.zeros(2), None, None)


@pytest.mark.parametrize("objective", ["binary", "regression", "multiclass"])
def test_a_row_of_weight_two_counts_as_two_rows(objective: str) -> None:
    loss = LOSSES[objective]
    scores = torch.randn(3, 4) if objective == "multiclass" else torch.randn(3)
    label = torch.tensor([0, 2, 1]) if objective == "multiclass" else torch.tensor([0.0, 1.0, 1.0])
    twice = torch.tensor([0, 1, 1, 2])
    weighted = loss(scores, label, torch.tensor([1.0, 2.0, 1.0]), None)
    assert float(weighted) == pytest.approx(float(loss(scores[twice], label[twice], None, None)), rel=1e-5)
