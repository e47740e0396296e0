"""A checkpoint is whole or is not used; saving never ends a training."""

import threading
import time

import numpy as np
import pytest
import torch

from tasks.train.checkpoint import Checkpoint, Checkpointer
from tasks.train.loop import SaveFailed, StopTraining
from tests.train.miniature import MemoryFolder, bits, loop, network, rows


def test_the_newest_checkpoints_are_kept() -> None:
    folder = MemoryFolder()
    loop("binary", folder=folder, checkpoint_every_s=0).run()
    assert sorted(name for name in folder.files if name.endswith(".json")) == [
        "step-0000000047.json",
        "step-0000000048.json",
    ]
    assert len(folder.files) == 4


def test_no_more_steps_than_asked_for_are_between_two_checkpoints() -> None:
    class Listening(MemoryFolder):
        def put(self, name: str, data: bytes) -> None:
            super().put(name, data)
            if name.endswith(".json"):
                steps.append(int(name[5:15]))

    steps = [0]
    loop(
        "binary",
        folder=Listening(),
        valid=rows("binary", 300),
        batch_size=20,
        evaluations=5,
        checkpoint_steps=20,
        epochs=2,
    ).run()
    assert len(steps) > 10
    assert max(np.diff(steps)) <= 20


def test_a_checkpoint_that_another_training_removes_meanwhile_is_gone_and_its_next_one_is_used() -> None:
    class Moving(MemoryFolder):
        """Its training goes on once the first file is read."""

        def get(self, name: str) -> bytes:
            if "0000000020" in name:
                self.files = later.files
            return super().get(name)

    own, other, later, warnings = MemoryFolder(), Moving(), MemoryFolder(), list[str]()
    own.siblings.append(other)
    for folder, steps in ((other, 20), (later, 24)):
        with pytest.raises(StopTraining):
            loop("binary", folder=folder, stop_after=steps).run()
    for folder in (other, later):
        folder.files = {name: data for name, data in folder.files.items() if "0000000016" not in name}
    assert loop("binary", folder=own, warnings=warnings).run().resumed_from == 24
    assert "the checkpoint of step 20 is gone" in warnings[0]


@pytest.mark.parametrize("damage", ["flip", "cut", "lose", "document"])
def test_a_training_resumes_from_the_checkpoint_before_a_damaged_one(damage: str) -> None:
    folder = MemoryFolder()
    logged: list[str] = []
    whole = network("binary")
    loop("binary", net=whole).run()
    with pytest.raises(StopTraining):
        loop("binary", folder=folder, stop_after=40, checkpoint_every_s=0).run()
    newest = max(name for name in folder.files if name.endswith(".safetensors"))
    data = bytearray(folder.files[newest])
    data[len(data) // 2] ^= 1
    document = newest.replace(".safetensors", ".json")
    if damage == "lose":
        del folder.files[newest]
    elif damage == "document":
        folder.files[document] = folder.files[document].replace(b'"step": 40', b'"step": 39')
    else:
        folder.files[newest] = bytes(data) if damage == "flip" else bytes(data[:-9])
    again = network("binary", seed=4)
    trained = loop("binary", net=again, folder=folder, warnings=logged).run()
    assert trained.resumed_from == 39
    assert "is damaged" in logged[0]
    assert bits(again) == bits(whole)


@pytest.mark.parametrize("keep", [1, 2])
def test_a_state_that_was_saved_outlives_damaged_checkpoints_of_later_steps(keep: int) -> None:
    """What cannot be read counts for nothing: else it would be kept in the place of each new checkpoint."""
    folder = MemoryFolder()
    for step in (90, 100):
        folder.put(f"step-{step:010d}.json", b"{}")
    checkpointer = Checkpointer(folder, keep=keep, warn=lambda _: None)
    assert checkpointer.newest() is None
    for step in (10, 20, 30):
        checkpointer.save(Checkpoint(step=step, state={"step": step}))
    assert checkpointer.close() is None
    assert sorted(name for name in folder.files if name.endswith(".json")) == [
        f"step-{step:010d}.json" for step in (10, 20, 30)[-keep:]
    ]
    again = Checkpointer(folder, keep=keep, warn=pytest.fail).newest()
    assert again is not None
    assert again.state == {"step": 30}


def test_a_document_that_is_no_mapping_is_damaged() -> None:
    folder, logged = MemoryFolder(), list[str]()
    folder.put("step-0000000007.json", b"[1]")
    folder.put("step-0000000007.safetensors", b"")
    assert Checkpointer(folder, keep=1, warn=logged.append).newest() is None
    assert "the checkpoint of step 7 is damaged" in logged[0]


def test_a_checkpoint_is_saved_although_an_old_one_cannot_be_removed() -> None:
    class Keeping(MemoryFolder):
        def remove(self, name: str) -> None:
            raise PermissionError(f"{name}: access denied")

    folder, logged = Keeping(), list[str]()
    with pytest.raises(StopTraining):
        loop("binary", folder=folder, stop_after=40, checkpoint_every_s=0, warnings=logged).run()
    assert max(folder.files) == "step-0000000040.safetensors"
    assert set(logged) == {
        "old checkpoints could not be removed, and use up the store: step-0000000001.json: access denied"
    }


class Full(MemoryFolder):
    """A folder that takes no file once it holds `room` of them."""

    def __init__(self, room: int = 0) -> None:
        super().__init__()
        self.room = room

    def put(self, name: str, data: bytes) -> None:
        if len(self.files) >= self.room:
            raise OSError("no space left on device")
        super().put(name, data)


@pytest.mark.parametrize(
    ("room", "left"), [(0, "there is no earlier checkpoint"), (2, "the newest checkpoint is that of step 16")]
)
def test_a_training_that_cannot_save_its_state_at_a_notice_to_stop_says_so(room: int, left: str) -> None:
    with pytest.raises(SaveFailed, match=f"the state of step 20 could not be saved: no space left on device; {left}"):
        loop("binary", folder=Full(room), stop_after=20).run()


def test_the_duration_of_a_save_lasts_until_it_is_durable_and_the_stall_is_what_the_loop_waited() -> None:
    class Slow(MemoryFolder):
        def put(self, name: str, data: bytes) -> None:
            released.wait(60)
            super().put(name, data)

    released = threading.Event()
    checkpointer = Checkpointer(Slow(), keep=2, warn=pytest.fail)
    checkpointer.save(Checkpoint(step=1, state={"epoch": 1, "rng": torch.get_rng_state()}))
    begin = time.perf_counter()
    assert (len(checkpointer.stalls), checkpointer.durations, checkpointer.newest_step) == (1, [], None)
    while time.perf_counter() - begin < 0.05:
        pass
    released.set()
    assert checkpointer.close() is None
    assert checkpointer.durations[0] > max(0.05, checkpointer.stalls[0])
    assert checkpointer.newest_step == 1


def test_a_save_that_fails_is_logged_and_training_continues() -> None:
    logged: list[str] = []
    trained = loop("binary", folder=Full(), warnings=logged).run()
    assert len(trained.history) == 3
    assert len(logged) == 3
    assert "no space left on device" in logged[0]
