"""The state holds everything that the next step depends on, in the format of every release."""

from math import inf, nan
from pathlib import Path

import pytest
import torch

from tasks.train.checkpoint import Checkpointer
from tasks.train.loop import TrainResult
from tasks.train.startup import AdamW
from tasks.train.state import EpochResult, TrainState
from tests.train.miniature import MemoryFolder, bits, loop, network, rows

STORED = Path(__file__).parent / "data" / "ff9b446"
"""A checkpoint that the code of commit ff9b446 wrote: `training` below, stopped after 20 steps."""
STEP = 20


def training(folder: MemoryFolder, *, seed: int = 0) -> TrainResult:
    """A training of a model with dropout and a validation day, three epochs of 16 steps."""
    torch.manual_seed(seed)
    net = network("binary", seed=seed, dropout=0.2)
    return loop("binary", net=net, folder=folder, valid=rows("binary", 300, seed=5)).run()


def stored() -> MemoryFolder:
    folder = MemoryFolder()
    folder.files = {path.name: path.read_bytes() for path in STORED.iterdir()}
    return folder


def state(*, seed: int = 0) -> TrainState:
    net = network("binary", seed=seed, dropout=0.2)
    return TrainState(network=net, optimizer=AdamW(net.parameters(), fused=True), steps_per_epoch=16)


def result(epoch: int, metric: float | None) -> EpochResult:
    return EpochResult(epoch=epoch, loss=1.0, valid_loss=1.0, valid_metric=metric, seconds=1.0, samples_per_sec=1.0)


def test_a_checkpoint_of_before_is_read_and_every_value_of_it_is_written_again() -> None:
    before, after = stored(), MemoryFolder()
    loaded = state(seed=9)
    checkpoint = Checkpointer(before, keep=2, warn=pytest.fail).newest()
    assert checkpoint is not None
    loaded.load_state_dict(checkpoint.state)
    assert (checkpoint.step, loaded.global_step, loaded.epoch, loaded.step) == (STEP, STEP, 2, 4)
    assert (loaded.best_epoch, [line.epoch for line in loaded.history]) == (1, [1])
    checkpointer = Checkpointer(after, keep=2, warn=pytest.fail)
    checkpointer.save(type(checkpoint)(step=loaded.global_step, state=loaded.state_dict()))
    checkpointer.close()
    again = checkpointer.newest()
    assert again is not None
    for name, value in checkpoint.state.items():
        same = again.state[name] == value  # tensors that describe columns were float32 before, and are float64
        assert (bool(same.all()) if isinstance(same, torch.Tensor) else same) or name == "epoch_loss", name
    added = {"model.preprocess.flagged", "epoch_mass", "rng_python", "rng_numpy", "trace"}
    assert set(again.state) - set(checkpoint.state) == added


def test_a_training_of_before_goes_on_to_its_end_and_learns_what_an_uninterrupted_one_learns() -> None:
    """Not to the bit: its first steps had other batches, the last one of an epoch smaller than the others."""
    whole, resumed = training(MemoryFolder()), training(stored(), seed=9)
    assert [line.epoch for line in resumed.history] == [line.epoch for line in whole.history] == [1, 2, 3]
    assert resumed.history[-1].valid_loss == pytest.approx(whole.history[-1].valid_loss, rel=0.02)
    assert resumed.history[-1].valid_metric == pytest.approx(whole.history[-1].valid_metric, abs=0.01)


def test_load_state_dict_restores_every_value_of_state_dict() -> None:
    first, second = state(), state(seed=9)
    loss = first.network.scores(torch.randn(8, 2), torch.ones(8, 1, dtype=torch.int64)).sum()
    loss.backward()  # type: ignore[no-untyped-call]  # torch has no types here
    first.optimizer.step()
    first.finish_epoch(result(1, 0.5), lower_is_better=True)
    first.step, first.epoch_loss, first.epoch_mass, first.epoch_seconds = 3, 0.1, 0.7, 2.5
    saved = first.state_dict()
    torch.manual_seed(99)
    second.load_state_dict(saved)
    restored = second.state_dict()
    assert list(restored) == list(saved)
    for name, value in saved.items():
        assert torch.equal(restored[name], value) if isinstance(value, torch.Tensor) else restored[name] == value, name


@pytest.mark.parametrize(
    ("metrics", "lower_is_better", "best", "since"),
    [
        ((0.5, 0.4, 0.6), True, 2, 1),
        ((0.5, 0.4, 0.6), False, 3, 0),
        ((0.5, 0.5, 0.5), True, 1, 2),
        ((None, 0.5, None), True, 2, 1),
        ((None, None, None), True, 3, 0),
        ((nan, 0.5, 0.6), True, 2, 1),
        ((0.5, nan, -inf), True, 1, 2),
        ((nan, nan, nan), True, 3, 0),
    ],
)
def test_the_best_epoch_is_the_first_with_the_best_metric(
    metrics: tuple[float | None, ...], *, lower_is_better: bool, best: int, since: int
) -> None:
    made = state()
    weights = []
    for epoch, metric in enumerate(metrics, 1):
        with torch.no_grad():
            next(made.network.parameters()).fill_(epoch)
        weights.append(bits(made.network))
        made.finish_epoch(result(epoch, metric), lower_is_better=lower_is_better)
    assert (made.best_epoch, made.epochs_since_best, made.epoch) == (best, since, len(metrics) + 1)
    made.load_best()
    assert bits(made.network) == weights[best - 1]
