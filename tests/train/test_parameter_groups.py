"""A module of the pipeline's own may give its parameters other rates and decays."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ratchet.contracts.errors import ConfigurationError
from ratchet.model.layers import Layers
from ratchet.model.networks import Network
from tasks.train.optimizer import Optimizers
from tasks.train.parameter_groups import own_groups
from tests.model.test_custom import DESCRIBED


class Mine(nn.Module):
    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(inputs))
        self.first, self.second = nn.Linear(inputs, 3), nn.Linear(3, 1)
        self.groups: Any = [
            {"params": [self.scale], "factor": 0.1},
            {"params": self.first.parameters(), "weight_decay": 0.5},
            {"params": [self.second.weight], "factor": 0},
        ]

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(self.first(x * self.scale))
        return out

    def parameter_groups(self) -> Any:
        return self.groups


def settings(network: nn.Module, optimizers: Optimizers) -> dict[str, tuple[float, float]]:
    """(rate, decay) of each parameter by name."""
    names = {id(weight): name for name, weight in network.named_parameters()}
    return {
        names[id(weight)]: (group["lr"], group["weight_decay"])
        for part in optimizers.parts
        for group in part.param_groups
        for weight in group["params"]
    }


def test_each_parameter_has_the_rate_and_the_decay_of_its_group_or_those_of_all() -> None:
    network = Network(DESCRIBED, lambda inputs: Layers(Mine(inputs)))
    optimizers = Optimizers(network, learning_rate=1.0, weight_decay=0.25)
    optimizers.set_learning_rate(0.1)
    found = settings(network, optimizers)
    assert set(found) == {name for name, _ in network.named_parameters()}
    assert found["body.scale"] == (pytest.approx(0.01), 0.0)
    assert found["body.first.weight"] == found["body.first.bias"] == (0.1, 0.5)
    assert found["body.second.weight"] == (0.0, 0.25)
    assert found["body.second.bias"] == (0.1, 0.0)


def test_a_factor_of_zero_freezes_and_others_move() -> None:
    network = Network(DESCRIBED, lambda inputs: Layers(Mine(inputs)))
    before = {name: weight.detach().clone() for name, weight in network.named_parameters()}
    optimizers = Optimizers(network, learning_rate=0.1, weight_decay=0.0)
    optimizers.set_learning_rate(0.1)
    network.scores(torch.randn(8, 2), torch.tensor([[0, 4]] * 8)).square().sum().backward()  # type: ignore[no-untyped-call]
    optimizers.step()
    moved = {name: float((weight.detach() - before[name]).abs().max()) for name, weight in network.named_parameters()}
    assert moved["body.second.weight"] == 0.0
    assert moved["body.scale"] == pytest.approx(0.01, rel=0.01)  # Adam's first step is as long as the rate
    assert moved["body.second.bias"] == pytest.approx(0.1, rel=0.01)


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (3, "returned an int; allowed: a list of dictionaries"),
        ([3], "returned a list; allowed: a list of dictionaries"),
        ([{"params": [], "lr": 1}], "has a group with lr; allowed: params, factor, weight_decay"),
        ([{"factor": 1}], "has a group without params; allowed: params, factor, weight_decay"),
        ([{"params": [], "factor": -1}], "has a group with factor -1; allowed: a number from 0 up"),
        ([{"params": [], "weight_decay": None}], "has a group with weight_decay None; allowed: a number from 0 up"),
        ([{"params": [], "factor": True}], "has a group with factor True; allowed: a number from 0 up"),
        ([{"params": 3}], "has a group whose params are an int; allowed: a list"),
        ([{"params": nn.Parameter(torch.ones(2))}], "has a group whose params are a tensor of shape [2]; allowed: a list"),
        ([{"params": ["scale"]}], "has a str among params; allowed: parameters of the module: scale, first.weight, "),
        ([{"params": [nn.Parameter(torch.ones(2))]}], "has a tensor of shape [2] among params; allowed: parameters of"),
    ],
)  # fmt: skip
def test_groups_that_cannot_be_used_are_refused_with_the_line(groups: Any, said: str) -> None:
    module = Mine(4)
    module.groups = groups
    with pytest.raises(ConfigurationError) as caught:
        own_groups(module)
    line = Mine.parameter_groups.__code__.co_firstlineno
    assert caught.value.cause.startswith(f"test_parameter_groups.py:{line}: parameter_groups {said}")


def test_a_parameter_in_two_groups_is_refused() -> None:
    module = Mine(4)
    module.groups = [{"params": [module.scale]}, {"params": module.parameters()}]
    with pytest.raises(ConfigurationError, match="has scale twice; allowed: each parameter once"):
        own_groups(module)
