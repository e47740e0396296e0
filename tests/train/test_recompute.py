"""Activations that are computed again change no bit, and are not kept."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ratchet.model.description import Architecture, Description, NumericColumn
from ratchet.model.layers import Layers
from ratchet.model.networks import Network
from tasks.train.recompute import recompute
from tests.train.miniature import bits, loop, network, rows


class Own(nn.Module):
    """Layers of a pipeline's own: a list of blocks with a batch norm, one that takes a name, and a single layer."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, 16)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Dropout(0.2))])
        self.scaled, self.last = Scaled(), nn.Linear(16, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.first(x)
        for block in self.blocks:
            hidden = hidden + block(hidden)
        out: Tensor = self.last(self.scaled(hidden, by=2.0))
        return out


class Scaled(nn.Module):
    """A module of several operations, which reads the buffers that it changes: one in place, one by another tensor."""

    middle: Tensor
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(16))
        self.register_buffer("middle", torch.zeros(16))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, hidden: Tensor, *, by: float) -> Tensor:
        if self.training:
            self.calls += 1
            self.middle = 0.9 * self.middle + 0.1 * hidden.detach().float().mean(0)
        return torch.tanh((hidden - self.middle) * self.weight) * by / (1 + self.calls)


def own() -> Network:
    """A network with layers of a pipeline's own, for the numbers of `rows`."""
    torch.manual_seed(0)
    return Network(described(kind="model.py:Own", hidden=()), lambda inputs: Layers(Own(inputs)))


def described(**architecture: Any) -> Description:
    """Of two numbers."""
    return Description(
        objective="binary",
        numeric=(NumericColumn(name="a", transform=None), NumericColumn(name="b", transform=None)),
        categorical=(),
        derived={},
        architecture=Architecture(**{"cross_layers": 1, "dropout": 0.0, **architecture}),
    )


MADE: dict[str, tuple[Callable[[], Network], int]] = {
    "mlp": (lambda: network("binary", "mlp", dropout=0.2), 1),
    "dcn": (lambda: network("binary", "dcn", dropout=0.2), 2),
    "set": (lambda: network("ranking", "set", dropout=0.2), 3),
    "linear": (lambda: network("binary", "linear"), 0),
    "own": (own, 2),
}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", list(MADE))
def test_a_training_that_computes_activations_again_ends_with_the_same_bits(kind: str, precision: str) -> None:
    make, blocks = MADE[kind]
    objective = "ranking" if kind == "set" else "binary"
    train = rows(objective, 1000)
    train = replace(train, places=train.places[:, :0]) if kind == "own" else train

    def trained(**changes: Any) -> dict[str, bytes]:
        made = make()
        torch.manual_seed(0)
        loop(objective, net=made, train=train, epochs=2, accumulation=2, precision=precision, **changes).run()
        return bits(made)

    assert recompute(make().body) == blocks
    assert trained(recompute=True) == trained()


def kept(made: Network) -> int:
    """The bytes that a forward pass keeps for the backward pass, without the weights."""
    weights = {weight.data_ptr() for weight in made.parameters()}
    storages: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in weights:
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    given = rows("binary")
    made.train()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        scores = made.scores(given.numeric, given.places)
    assert scores.requires_grad
    return sum(storages.values())


def test_deep_layers_keep_less_than_half_of_their_activations() -> None:
    torch.manual_seed(0)
    made = Network(described(kind="mlp", hidden=(64,) * 12, dropout=0.2, skip=True))
    whole = kept(made)
    assert recompute(made.body) == 12
    assert kept(made) < whole / 2


def test_where_nothing_can_be_computed_again_the_training_says_so() -> None:
    said: dict[str, list[str]] = {"linear": [], "mlp": []}
    for kind, warnings in said.items():
        loop("binary", net=network("binary", kind), warnings=warnings, recompute=True)
    assert said["mlp"] == []
    (line,) = said["linear"]
    assert line.startswith("train.recompute has no effect")
