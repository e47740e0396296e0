"""Every generator that a pipeline's own code may draw from is seeded, saved and restored."""

import json
import random

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tasks.train.random_states import generator_states, restore_generators, seed_generators
from tasks.train.stopping import StopTraining
from tests.train.miniature import MemoryFolder, bits, loop, network, rows


def draws() -> list[float]:
    """Two numbers of each generator; the second normal number of a pair is a part of the state."""
    drawn = [random.random(), random.gauss(0, 1), *np.random.normal(size=1), *torch.rand(2).tolist()]
    return [float(number) for number in drawn]


def test_a_seed_gives_the_same_numbers() -> None:
    seed_generators(3)
    first = draws()
    seed_generators(3)
    assert draws() == first
    seed_generators(4)
    assert draws() != first


def test_a_state_that_went_through_json_gives_the_numbers_that_followed() -> None:
    seed_generators(0)
    draws()
    states = generator_states()
    values = {name: value for name, value in states.items() if not isinstance(value, Tensor)}
    states |= json.loads(json.dumps(values))
    expected = [draws(), draws()]
    restore_generators(states)
    assert [draws(), draws()] == expected


class Noise(nn.Module):
    """A layer of a pipeline that draws from every generator."""

    def forward(self, x: Tensor) -> Tensor:
        return x * (1 + 0.1 * sum(draws())) if self.training else x


def noisy(*, seed: int) -> nn.Module:
    seed_generators(seed)
    made = network("binary", seed=seed)
    made.body = nn.Sequential(Noise(), made.body)
    return made


@pytest.mark.parametrize("steps", [7, 30])
def test_a_model_that_draws_from_python_and_numpy_resumes_to_the_same_bits(steps: int) -> None:
    given = {"train": rows("binary"), "valid": rows("binary", 300, seed=5)}
    whole = noisy(seed=0)
    loop("binary", net=whole, **given).run()  # type: ignore[arg-type]  # a network and rows
    folder = MemoryFolder()
    with pytest.raises(StopTraining):
        loop("binary", net=noisy(seed=0), folder=folder, stop_after=steps, **given).run()  # type: ignore[arg-type]  # the same
    resumed = noisy(seed=9)
    loop("binary", net=resumed, folder=folder, **given).run()  # type: ignore[arg-type]  # the same
    assert bits(resumed) == bits(whole)  # type: ignore[arg-type]  # the same


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this host has no GPU")
def test_the_state_of_the_gpu_s_generator_is_restored() -> None:
    seed_generators(0)
    torch.rand(3, device="cuda")
    states = generator_states()
    expected = torch.rand(3, device="cuda").cpu()
    restore_generators(states)
    assert torch.equal(torch.rand(3, device="cuda").cpu(), expected)
