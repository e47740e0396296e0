"""What tests of a GPU have in common: a training on it, as the stage prepares it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from tasks.train.loop import Loop, TrainResult
from tasks.train.losses import LOSSES, of_members
from tasks.train.startup import prepare
from tests.train.miniature import loop, network

GPU, CPU = torch.device("cuda"), torch.device("cpu")
NEEDS_GPU = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this host has no GPU"),
    pytest.mark.filterwarnings("ignore:.*deterministic"),  # of an operation that has no such form, see startup
]


@pytest.fixture(autouse=True)
def as_a_training_begins() -> Iterator[None]:
    before = torch.get_deterministic_debug_mode(), torch.utils.deterministic.fill_uninitialized_memory
    prepare(seed=0, cpus=1, gpus=1)
    yield
    torch.set_deterministic_debug_mode(before[0])
    torch.utils.deterministic.fill_uninitialized_memory = before[1]


def made(objective: str = "binary", kind: str = "dcn", *, device: torch.device = GPU, **changes: Any) -> Loop:
    """A training on a device. random: whether it draws random numbers."""
    random = changes.pop("random", False)
    parts = {"dropout": 0.2, "masked": 0.2} if random else {"dropout": 0.0, "masked": 0.0}
    net = changes.pop("net", None) or network(objective, kind, members=2 if kind == "tabm" else 1, **parts)
    own = {"loss": of_members(LOSSES[objective])} if kind == "tabm" else {}
    torch.manual_seed(7)
    return loop(objective, net=net.to(device), metric=lambda _, scores: float(scores.double().mean()), **own, **changes)


def losses(result: TrainResult) -> Any:
    return result.trace[:, 0]


def close(one: TrainResult, other: TrainResult, within: float) -> None:
    """The losses of the steps, relative to the largest."""
    assert len(one.trace) == len(other.trace)
    assert float(np.abs(losses(one) - losses(other)).max() / np.abs(losses(other)).max()) < within
