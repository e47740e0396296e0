"""Which parameters decay, which have a rate of their own, and of which only the rows of a step move."""

import pytest
import torch
from torch import Tensor

from ratchet.model.networks import Network
from tasks.train import optimizer
from tasks.train.optimizer import Optimizers
from tasks.train.rows_optimizer import RowsAdam
from tasks.train.step_losses import NotFinite
from tasks.train.stopping import StopTraining
from tests.train.miniature import MemoryFolder, bits, loop, network, rows

TABLE = "embedding.tables.4.weight"


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table is a large one."""
    monkeypatch.setattr(optimizer, "LARGE", 1)


def step(made: Network, *, accumulation: int = 1, optimizer: str = "adamw") -> Optimizers:
    """Gradients of a hundred rows that have the categories 1 to 3 alone, not clipped."""
    few = rows("binary", 100)
    few.places.copy_(few.places % 3 + 1)
    made.train()
    one = loop("binary", net=made, batch_size=100, accumulation=accumulation, optimizer=optimizer)
    one._computation.add_gradients(few)
    return one._optimizer


def test_matrices_decay_and_biases_and_vectors_do_not() -> None:
    made = network("binary")
    optimizers = Optimizers(made, learning_rate=0.1, weight_decay=0.5)
    optimizers.set_learning_rate(0.01)
    names = {id(weight): name for name, weight in made.named_parameters()}
    groups = {
        names[id(weight)]: (group["weight_decay"], group["lr"], group["eps"])
        for part in optimizers.parts
        for group in part.param_groups
        for weight in group["params"]
    }
    assert set(groups) == set(names.values())
    assert groups["body.deep.0.weight"] == groups["numbers.columns.weight"] == (0.5, 0.01, 1e-8)
    assert groups["body.deep.0.bias"] == (0.0, 0.01, 1e-8)
    assert groups[TABLE] == (0.0, 0.03, 1e-3)


def test_sgd_has_nesterovs_momentum_and_decay_on_matrices_alone() -> None:
    made = network("binary", masked=0.0)
    optimizers = Optimizers(made, learning_rate=0.1, weight_decay=0.5, kind="sgd")
    optimizers.set_learning_rate(0.1)
    before = {name: weight.detach().clone() for name, weight in made.named_parameters()}
    for _ in range(2):
        for weight in made.parameters():
            weight.grad = torch.full_like(weight, 0.2)
        optimizers.step()
    for name, rate, decay in (("body.deep.0.weight", 0.1, 0.5), ("body.deep.0.bias", 0.1, 0.0), (TABLE, 0.3, 0.0)):
        weight, momentum = before[name], torch.zeros(())
        for _ in range(2):
            gradient = 0.2 + decay * weight
            momentum = 0.9 * momentum + gradient
            weight = weight - rate * (gradient + 0.9 * momentum)
        torch.testing.assert_close(dict(made.named_parameters())[name], weight, check_device=False)


def test_sgd_moves_only_the_rows_of_a_step_in_a_large_table(large: None) -> None:
    made = network("binary", masked=0.0)
    before = made.state_dict()[TABLE].clone()
    optimizers = step(made, optimizer="sgd")
    optimizers.set_learning_rate(0.1)
    optimizers.clip(5.0)
    gradient = dict(made.named_parameters())[TABLE].grad
    assert gradient is not None
    optimizers.step()
    moved = made.state_dict()[TABLE] - before
    assert moved.any(1).nonzero().flatten().tolist() == [1, 2, 3]
    torch.testing.assert_close(moved, -3.0 * gradient.to_dense())  # 0.1 * 3 / (1 - 0.9)


def test_clipping_is_that_of_torch() -> None:
    ours, theirs = network("binary", masked=0.0), network("binary", masked=0.0)
    norm = step(ours).clip(0.01)
    step(theirs)
    assert torch.equal(norm, torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.01))
    assert norm > 0.01
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert torch.equal(one.grad, other.grad)


def test_only_the_rows_of_a_step_move_in_a_large_table(large: None) -> None:
    made = network("binary", masked=0.0)
    before = made.state_dict()[TABLE].clone()
    optimizers = step(made)
    optimizers.clip(5.0)
    optimizers.step()
    assert (made.state_dict()[TABLE] != before).any(1).nonzero().flatten().tolist() == [1, 2, 3]
    assert not any(weight is dict(made.named_parameters())[TABLE] for weight in optimizers.layers)


@pytest.mark.parametrize("accumulation", [1, 4])
def test_the_gradient_of_a_large_table_is_that_of_a_small_one(
    accumulation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = network("binary", masked=0.0), network("binary", masked=0.0)
    norm = step(small).clip(0.01)
    monkeypatch.setattr(optimizer, "LARGE", 1)
    torch.testing.assert_close(step(large, accumulation=accumulation).clip(0.01), norm)
    expected, found = (dict(made.named_parameters())[TABLE].grad for made in (small, large))
    assert found is not None
    assert found.is_sparse
    torch.testing.assert_close(found.to_dense(), expected)


def test_a_training_with_a_large_table_learns_as_one_with_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    def losses() -> list[float]:
        return [each.loss for each in loop("binary", net=network("binary"), epochs=6).run().history]

    small = losses()
    monkeypatch.setattr(optimizer, "LARGE", 1)
    assert losses() == pytest.approx(small, rel=0.02)


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_a_training_with_a_large_table_resumes_to_the_same_bits(large: None, kind: str) -> None:
    whole, resumed = network("binary", dropout=0.2), network("binary", dropout=0.2, seed=9)
    torch.manual_seed(0)
    loop("binary", net=whole, optimizer=kind).run()
    folder = MemoryFolder()
    stopped = network("binary", dropout=0.2)
    torch.manual_seed(0)
    with pytest.raises(StopTraining):
        loop("binary", net=stopped, folder=folder, stop_after=20, optimizer=kind).run()
    loop("binary", net=resumed, folder=folder, optimizer=kind).run()
    assert bits(resumed) == bits(whole)


def test_an_infinite_weight_of_a_large_table_is_never_saved(large: None) -> None:
    made, folder = network("binary", masked=0.0), MemoryFolder()

    def poison() -> bool:
        """Make a row infinite that no step reads."""
        made.state_dict()[TABLE][0] = torch.inf
        return False

    with pytest.raises(NotFinite, match="a weight is not finite after step 3"):
        loop("binary", net=made, folder=folder, stopping=poison, checkpoint_steps=3).run()
    assert folder.files == {}


def test_a_row_that_is_seen_late_moves_as_far_as_one_that_is_seen_early() -> None:
    table = torch.nn.Embedding(2, 2, sparse=True)
    rows_adam = RowsAdam(table.parameters(), lr=0.1, eps=1e-3, factor=1.0)
    moved: dict[int, Tensor] = {}
    for row in [0] * 500 + [1]:
        before = table.weight.detach().clone()
        rows_adam.zero_grad()
        table(torch.tensor([row])).sum().backward()
        rows_adam.step()
        moved.setdefault(row, (before - table.weight.detach())[row])
    assert torch.allclose(moved[0], torch.full((2,), 0.1), rtol=0.01)
    assert torch.allclose(moved[1], moved[0], rtol=1e-4)


def test_the_gradient_of_a_large_table_may_be_dense() -> None:
    table = torch.nn.Embedding(3, 2)
    before = table.weight.detach().clone()
    table(torch.tensor([1, 1])).sum().backward()
    RowsAdam(table.parameters(), lr=0.1, eps=1e-3, factor=1.0).step()
    assert (table.weight != before).any(1).tolist() == [False, True, False]
