"""The bits that are saved are those of the step, although the next step has begun while they are copied."""

import threading

import pytest
import torch
from torch import Tensor, nn

from tasks.train.checkpoint import Checkpoint, Checkpointer
from tasks.train.optimizer import Optimizers
from tasks.train.schedule import Fall
from tasks.train.state import TrainState
from tasks.train.stopping import StopTraining
from tests.train.miniature import MemoryFolder, bits, loop, network


def saved(folder: MemoryFolder) -> dict[str, Tensor]:
    found = Checkpointer(folder, keep=1, warn=pytest.fail).newest()
    assert found is not None
    return dict(found.state)


def test_the_update_waits_for_the_copy_and_the_forward_pass_does_not() -> None:
    weights, buffer, folder = nn.Parameter(torch.ones(1000)), torch.ones(1000), MemoryFolder()
    checkpointer = Checkpointer(folder, keep=1, warn=pytest.fail)
    begun = threading.Event()
    checkpointer._pool.submit(begun.wait, 60)
    checkpointer.save(Checkpoint(step=1, state={"weights": weights, "buffer": buffer}, moving={"buffer"}))
    buffer.fill_(2)  # a forward pass, before anything is copied in the background
    threading.Timer(1.0, begun.set).start()
    checkpointer.wait_for_copy()
    weights.data.fill_(2)
    assert checkpointer.close() is None
    assert checkpointer.stalls[0] > 0.03
    assert saved(folder)["weights"].tolist() == saved(folder)["buffer"].tolist() == [1.0] * 1000


def test_of_a_weight_that_a_forward_pass_changes_no_copy_is_saved_and_the_next_one_is_taken_at_once() -> None:
    weights, folder, logged = nn.Parameter(torch.ones(10)), MemoryFolder(), list[str]()
    checkpointer = Checkpointer(folder, keep=1, warn=logged.append)
    for step in (1, 2):
        begun = threading.Event()
        checkpointer._pool.submit(begun.wait, 60)
        checkpointer.save(Checkpoint(step=step, state={"weights": weights}))
        with torch.no_grad():
            weights.fill_(step + 1)
        begun.set()
        checkpointer.wait_for_copy()
        checkpointer.wait()
    assert logged == [
        "a checkpoint could not be saved; training continues: weights changed while it was copied; from now on training"
        " waits for its copy"
    ]
    assert min(name for name in folder.files if name.endswith(".json")) == "step-0000000002.json"
    assert saved(folder)["weights"].tolist() == [2.0] * 10


def test_what_only_an_update_changes_is_copied_in_the_background_and_the_rest_at_once() -> None:
    net = network("binary")
    net.body.norm = nn.BatchNorm1d(2)
    net.body.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
    optimizer = Optimizers(net, learning_rate=0.1, weight_decay=0.1)
    state = TrainState(network=net, optimizer=optimizer, fall=Fall(begin=48, steps=10, level=48))
    moving = {name for name in state.checkpoint().moving if name.startswith("model.body.")}
    norm = {f"model.body.norm.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")}
    assert moving == {"model.body.frozen", *norm}


def normed(seed: int = 0) -> object:
    made = network("binary", masked=0.0, seed=seed)
    made.body.norm = nn.BatchNorm1d(2)

    def see(_module: object, given: tuple[Tensor, ...], _out: object) -> None:
        if made.training:
            made.body.norm(given[0].float().expand(-1, 2))

    made.embedding.register_forward_hook(see)
    return made


@pytest.mark.parametrize("part_bytes", [300, 1 << 20])
def test_a_training_with_a_batch_norm_that_is_saved_at_each_step_resumes_to_the_same_bits(part_bytes: int) -> None:
    whole, folder = normed(), MemoryFolder()
    loop("binary", net=whole).run()
    for steps in (7, 20, 9):
        checkpointer = Checkpointer(folder, keep=2, warn=pytest.fail, part_bytes=part_bytes)
        with pytest.raises(StopTraining):
            loop("binary", net=normed(), checkpointer=checkpointer, stop_after=steps, checkpoint_every_s=0).run()
    resumed = normed(seed=5)
    assert loop("binary", net=resumed, folder=folder).run().resumed_from == 36
    assert bits(resumed) == bits(whole)
