"""A measurement chooses micro-batches and changes nothing else; a training repeats what it chose."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tasks.train.data import Reader, Rows
from tasks.train.losses import LOSSES, Loss
from tasks.train.probe import Probe
from tasks.train.ranks import Ranks
from tests.train.miniature import bits, loop, network, rows

PETABYTE = 2**50


def slow(most: int, seconds: list[int]) -> Loss:
    """A loss that does work for each row beyond `most` squared; `seconds` counts its calls."""

    def loss(scores: Tensor, label: Tensor, weight: Tensor | None, group: Tensor | None) -> Tensor:
        seconds.append(len(scores))
        if len(scores) > most:
            torch.ones(600, 600) @ torch.ones(600, 20 * (len(scores) - most))
        return LOSSES["binary"](scores, label, weight, group)

    return loss


def test_the_fastest_number_is_chosen_and_kept_and_repeated_to_the_bit() -> None:
    made, again = network("binary", dropout=0.2), network("binary", dropout=0.2)
    given: dict[str, Any] = {"train": rows("binary", 4096), "batch_size": 1024, "epochs": 2}
    torch.manual_seed(0)
    found = loop("binary", net=made, loss=slow(300, []), measure="time", **given).run()
    assert found.measured is not None
    assert list(found.measured.figures) == [1, 2, 4, 8, 16]
    assert found.measured.accumulation >= 4
    assert [(each.begin, each.accumulation) for each in found.segments] == [(0, found.measured.accumulation)]
    torch.manual_seed(0)
    repeated = loop("binary", net=again, segments=found.segments, **given).run()
    assert repeated.measured is None
    assert bits(again) == bits(made)


def test_the_whole_batch_stays_where_no_other_number_is_clearly_faster() -> None:
    def even(scores: Tensor, label: Tensor, weight: Tensor | None, group: Tensor | None) -> Tensor:
        torch.ones(600, 600) @ torch.ones(600, 2000)  # as long for each micro-batch
        return LOSSES["binary"](scores, label, weight, group)

    found = loop("binary", train=rows("binary", 2048), batch_size=512, epochs=1, loss=even, measure="time").run()
    assert found.measured is not None
    assert found.measured.accumulation == 1


def kept_bytes(call: Callable[[], bool]) -> float | None:
    """The bytes that a call keeps for its backward pass at once, as a GPU counts what is in use."""
    now, most = 0, 0

    def pack(tensor: Tensor) -> Tensor:
        nonlocal now, most
        now += tensor.nbytes
        most = max(most, now)
        return tensor

    def unpack(tensor: Tensor) -> Tensor:
        nonlocal now
        now -= tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        return most if call() else None


@pytest.mark.parametrize(("share", "chosen"), [(2.0, 1), (0.6, 2), (0.3, 4), (0.01, 16)])
def test_the_fewest_micro_batches_that_fit_are_chosen_and_nothing_changes(share: float, chosen: int) -> None:
    made = network("ranking", "set", dropout=0.2)
    made.body.norm = torch.nn.BatchNorm1d(2)
    made.embedding.register_forward_hook(lambda *_: (made.body.norm(torch.randn(9, 2)), random.random(), None)[2])
    one = loop("ranking", net=made, batch_size=1024)
    batch = one._passes.level.read(one._passes.level.longest(1024))
    whole = kept_bytes(lambda: bool(one._computation.compute(batch, 1)))
    made.zero_grad()
    assert whole is not None
    before = bits(made), torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    probe = Probe(made, one._computation, Ranks(), peak=kept_bytes, limit=lambda: share * whole)
    found = probe.measure("memory", batch)
    assert (found.accumulation, one._computation.accumulation) == (chosen, chosen)
    assert (bits(made), random.getstate(), np.random.get_state()[1].tolist()) == (before[0], before[2], before[3])
    assert torch.equal(torch.get_rng_state(), before[1])
    assert all(weight.grad is None for weight in made.parameters())
    assert not one._optimizer.tensors()


def test_what_runs_out_of_memory_does_not_fit() -> None:
    def loss(scores: Tensor, label: Tensor, weight: Tensor | None, group: Tensor | None) -> Tensor:
        if len(scores) > 300:
            torch.empty(PETABYTE)
        return LOSSES["binary"](scores, label, weight, group)

    one = loop("binary", batch_size=1024, loss=loss)
    batch = one._passes.level.read(one._passes.level.longest(1024))
    found = Probe(one._network, one._computation, Ranks(), peak=kept_bytes, limit=lambda: 1e12).measure("memory", batch)
    assert found.accumulation == 4
    assert [share < 1 for share in found.figures.values()] == [False, False, True, True, True]
    assert Probe(one._network, one._computation, Ranks()).measure("time", batch).accumulation >= 4


def test_the_longest_groups_are_measured() -> None:
    sizes = torch.full((100,), 10)
    sizes[[7, 70]] = torch.tensor([200, 300])
    data = rows("binary", int(sizes.sum()))
    ranked = Rows(numeric=data.numeric, places=data.places, label=data.label, weight=None, sizes=sizes)
    reader = Reader(ranked, batch_size=256, seed=0)
    found = reader.read(reader.longest(400)).sizes
    assert found is not None
    assert sorted(found.tolist())[-2:] == [200, 300]
    assert 400 <= int(found.sum()) < 600
