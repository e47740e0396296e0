"""Rows of a group attend to each other, to no others, and in no order."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from ratchet.model.sets import Attention, SetLayers

SIZES = st.lists(st.integers(1, 20), min_size=1, max_size=12)


def attention() -> Attention:
    torch.manual_seed(0)
    made = Attention(12)
    nn.init.normal_(made.out.weight)
    return made


@given(SIZES)
def test_a_group_has_the_outputs_that_it_has_alone(sizes: list[int]) -> None:
    made, rows = attention(), torch.randn(sum(sizes), 12)
    together = made(rows, torch.tensor(sizes))
    alone = [made(some, torch.tensor([len(some)])) for some in rows.split(sizes)]  # type: ignore[no-untyped-call]
    torch.testing.assert_close(together, torch.cat(alone))


def test_another_order_of_a_group_is_the_same_order_of_its_outputs() -> None:
    made, rows, order = attention(), torch.randn(9, 12), torch.randperm(9)
    found, other = (made(some, torch.tensor([9])) for some in (rows, rows[order]))
    torch.testing.assert_close(other, found[order])
    assert float((made(rows[:4], torch.tensor([4])) - found[:4]).detach().abs().max()) > 0.01


def test_it_is_that_of_torch() -> None:
    made, rows = attention(), torch.randn(2, 7, 12)
    normal = nn.functional.layer_norm(rows, (12,))
    heads = [each(normal).unflatten(2, (4, 16)).transpose(1, 2) for each in (made.queries, made.keys, made.values)]
    expected = made.out(nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))
    torch.testing.assert_close(made(rows.flatten(0, 1), torch.tensor([7, 7])), expected.flatten(0, 1))


def test_at_first_it_adds_nothing_and_its_last_layer_learns() -> None:
    torch.manual_seed(0)
    made, rows = SetLayers(nn.Linear(5, 8), 5, 8, 1), torch.randn(6, 5)
    out = made(rows, torch.tensor([2, 4]))
    torch.testing.assert_close(out, made.head(made.deep(rows)))
    out.square().sum().backward()
    assert made.attention.out.weight.grad is not None
    assert float(made.attention.out.weight.grad.abs().max()) > 0


@pytest.mark.parametrize("sizes", [[1, 1, 1], [3], [1, 2, 3, 4, 5, 100]])
def test_a_gradient_reaches_every_row(sizes: list[int]) -> None:
    rows = torch.randn(sum(sizes), 12, requires_grad=True)
    attention()(rows, torch.tensor(sizes)).square().sum().backward()
    assert rows.grad is not None
    assert bool(rows.grad.isfinite().all())
    assert bool(rows.grad.any(1).all())
