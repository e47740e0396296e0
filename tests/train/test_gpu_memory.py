"""What training promises on the memory of a GPU. Where there is none, these tests are skipped."""

import gc
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ratchet.contracts.errors import ConfigurationError
from ratchet.model.description import Architecture, Description, NumericColumn
from ratchet.model.layers import Layers
from ratchet.model.networks import Network
from tasks.train.checkpoint import Checkpoint, Checkpointer
from tasks.train.loop import Loop
from tests.train.miniature import MemoryFolder, rows
from tests.train.on_gpu import NEEDS_GPU, as_a_training_begins, made

__all__ = ["as_a_training_begins"]
pytestmark = NEEDS_GPU


def deep(*, layers: int = 1, width: int = 1024) -> Network:
    """A network whose activations take far more memory than its weights."""
    described = Description(
        objective="binary",
        numeric=(NumericColumn(name="a", transform=None), NumericColumn(name="b", transform=None)),
        categorical=(),
        derived={},
        architecture=Architecture(kind="model.py:Deep", hidden=(), cross_layers=1, dropout=0.0),
    )
    torch.manual_seed(0)
    blocks = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU(), nn.Tanh())]
    return Network(
        described, lambda inputs: Layers(nn.Sequential(nn.Linear(inputs, width), *blocks, nn.Linear(width, 1)))
    )


def many(count: int) -> Any:
    given = rows("binary", count)
    return replace(given, places=given.places[:, :0])


def peak(one: Loop) -> int:
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    one.run()
    return torch.cuda.max_memory_allocated()


def test_activations_that_are_computed_again_take_less_memory() -> None:
    given = {"train": many(1 << 16), "batch_size": 1 << 15, "epochs": 1}
    kept = peak(made(net=deep(layers=8), **given))
    assert peak(made(net=deep(layers=8), recompute=True, **given)) < 0.7 * kept


def test_a_step_that_runs_out_of_memory_goes_on_in_smaller_micro_batches() -> None:
    given = {"train": many(1 << 16), "batch_size": 1 << 15, "epochs": 2}
    whole = peak(made(net=deep(layers=8), **given))
    warnings = list[str]()
    one = made(net=deep(layers=8), warnings=warnings, **given)
    limited(whole // 2)
    try:
        found = one.run()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert [each.accumulation for each in found.segments][-1] in (4, 8)
    assert warnings
    assert all("memory ran out after step 0" in each for each in warnings)


def test_a_step_that_fits_in_no_way_is_refused_by_name() -> None:
    one = made(net=deep(layers=8, width=4096), train=many(1 << 16), batch_size=256)
    limited(torch.cuda.memory_allocated() + (64 << 20))
    try:
        with pytest.raises(
            ConfigurationError,
            match=r"^train ran out of memory in a step of 256 rows, in 64 micro-batches: CUDA out of memory\. .*they cannot be",
        ):
            one.run()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def limited(size: int) -> None:
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(size / torch.cuda.get_device_properties(0).total_memory)


def test_micro_batches_are_chosen_by_the_memory_that_is_free() -> None:
    found = made(measure="memory", train=many(1 << 16), net=deep(layers=4), batch_size=1 << 15, epochs=1).run()
    assert found.measured is not None
    assert (found.measured.by, found.measured.accumulation) == ("memory", 1)
    assert all(0 < share < 0.1 for share in found.measured.figures.values())
    assert found.measured.figures[1] > 1.5 * found.measured.figures[4]


def test_a_checkpoint_has_the_state_of_its_step_while_training_goes_on() -> None:
    saved = dict[int, dict[str, Tensor]]()

    class Watched(Checkpointer):
        def save(self, checkpoint: Checkpoint) -> None:
            values = checkpoint.state.items()
            saved[checkpoint.step] = {name: each.cpu().clone() for name, each in values if isinstance(each, Tensor)}
            super().save(checkpoint)
            self.wait()
            found = self.newest()
            assert found is not None
            assert found.step == checkpoint.step
            for name, value in saved[checkpoint.step].items():
                assert torch.equal(found.state[name], value), name

    made(random=True, checkpointer=Watched(MemoryFolder(), keep=2, warn=pytest.fail), checkpoint_steps=3).run()
    assert len(saved) > 12
