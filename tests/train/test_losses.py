"""Each loss equals its definition, computed the slow way."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tasks.train.losses import LOSSES, listwise


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


@given(GROUPS)
def test_the_listwise_loss_is_cross_entropy_over_each_group(groups: list[list[tuple[float, float]]]) -> None:
    scores = torch.tensor([score for group in groups for score, _ in group])
    labels = torch.tensor([label for group in groups for _, label in group])
    group = torch.repeat_interleave(torch.arange(len(groups)), torch.tensor([len(rows) for rows in groups]))
    expected = slow_listwise(
        [[score for score, _ in rows] for rows in groups], [[label for _, label in rows] for rows in groups]
    )
    assert float(listwise(scores, labels, None, group)) == pytest.approx(expected, abs=1e-4)


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
