"""A checkpoint is whole or is not used; saving never ends a training."""

import json
import threading
import time
from hashlib import sha256
from math import inf
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save as save_tensors

from ratchet.contracts.errors import NoAnswer
from tasks.train.checkpoint import Checkpoint, Checkpointer
from tasks.train.endings import convert_endings
from tasks.train.stopping import SaveFailed, StopTraining
from tests.train.miniature import MemoryFolder, bits, loop, network, rows


def files_of(folder: MemoryFolder, step: int) -> set[str]:
    """The files that a checkpoint consists of."""
    name = f"step-{step:010d}.json"
    content = json.loads(folder.files[name])["content"]
    return {name, *(each["name"] for stored in ("state", "best") for each in content[stored]["files"])}


def steps_of(folder: MemoryFolder) -> list[int]:
    return sorted(int(name[5:15]) for name in folder.files if name.startswith("step-") and name.endswith(".json"))


def test_of_many_checkpoints_the_newest_are_kept_with_their_files_and_each_best_is_written_twice() -> None:
    class Counting(MemoryFolder):
        def put(self, name: str, data: bytes) -> None:
            super().put(name, data)
            written.append(name)
            most.append(len(self.files))

    written, most, folder = list[str](), list[int](), Counting()
    trained = loop("binary", folder=folder, valid=rows("binary", 300), checkpoint_every_s=0, epochs=6).run()
    assert steps_of(folder) == [trained.history[-1].step - 1, trained.history[-1].step]
    assert set(folder.files) == set().union(*(files_of(folder, step) for step in steps_of(folder)))
    best = [name for name in written if name.startswith("best-")]
    assert len(set(best)) == len(best)
    metrics = [each.valid_metric for each in trained.history if each.valid_metric is not None]
    assert len(best) == 2 * sum(metric < min(metrics[:place], default=inf) for place, metric in enumerate(metrics))
    assert len(written) > 100
    assert max(most) <= 3 * 3


@pytest.mark.parametrize("failing", [1, 2, 3])
@pytest.mark.parametrize("keep", [2, 3])
def test_every_checkpoint_that_was_saved_after_one_that_failed_can_be_read(failing: int, keep: int) -> None:
    class Failing(MemoryFolder):
        def put(self, name: str, data: bytes) -> None:
            if name == f"step-{failing:010d}.json":
                raise OSError("the store is away")
            super().put(name, data)

    folder, logged = Failing(), list[str]()
    checkpointer = Checkpointer(folder, keep=keep, warn=logged.append)
    state = {"weight": torch.ones(3), "best.weight": torch.zeros(3)}
    for step in range(1, 8):
        checkpointer.save(Checkpoint(step=step, state=state))
        assert (checkpointer.wait() is None) == (step != failing)
        found = Checkpointer(folder, keep=keep, warn=logged.append).newest()
        assert (found and found.step) == (step if step != failing else step - 1 or None)
    checkpointer.close()
    assert [line for line in logged if "damaged" in line] == []


def test_what_a_crashed_save_has_left_is_removed_by_the_next_one() -> None:
    folder = MemoryFolder()
    for name in ("step-0000000001.part-1-of-2.aa.safetensors", "best-0000000001.part-1-of-1.aa.safetensors"):
        folder.put(name, b"half")
    folder.put("origin.json", b"{}")
    loop("binary", folder=folder).run()
    assert set(folder.files) - {"origin.json"} == set().union(*(files_of(folder, step) for step in steps_of(folder)))
    assert "origin.json" in folder.files


def test_a_checkpoint_of_an_earlier_release_is_named_and_training_begins_with_step_0() -> None:
    folder, logged, made = MemoryFolder(), list[str](), network("binary")
    tensors = save_tensors({"weights": torch.ones(3)})
    document = {"progress": {"format": 3, "step": 30}, "tensors_sha256": sha256(tensors).hexdigest()}
    folder.files = {"step-0000000030.safetensors": tensors, "step-0000000030.json": json.dumps(document).encode()}
    assert loop("binary", net=made, folder=folder, warnings=logged).run().resumed_from is None
    assert logged == [
        "the checkpoint of step 30 is of another release (it is not of format 4 or 5); training uses the one before it"
    ]
    assert steps_of(folder) == [32, 48]
    assert "step-0000000030.safetensors" not in folder.files


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
        folder.files = {name: data for name, data in folder.files.items() if not name.startswith("step-0000000016")}
    assert loop("binary", folder=own, warnings=warnings).run().resumed_from == 24
    assert "the checkpoint of step 20 is gone" in warnings[0]


@pytest.mark.parametrize("damage", ["flip", "cut", "lose", "document"])
def test_a_training_resumes_from_the_checkpoint_before_a_damaged_one(damage: str) -> None:
    folder = MemoryFolder()
    whole = network("binary")
    loop("binary", net=whole).run()
    cut = Checkpointer(folder, keep=2, warn=pytest.fail, part_bytes=500)
    with pytest.raises(StopTraining):
        loop("binary", checkpointer=cut, stop_after=40, checkpoint_every_s=0).run()
    document = "step-0000000040.json"
    names = [document] if damage == "document" else sorted(files_of(folder, 40) - files_of(folder, 39) - {document})
    assert damage == "document" or len(names) > 3
    files = dict(folder.files)
    for name in names:
        folder.files, logged = dict(files), []
        data = bytearray(files[name])
        data[len(data) // 2] ^= 1
        if damage == "lose":
            del folder.files[name]
        elif damage == "document":
            folder.files[name] = files[name].replace(b'"step": 40', b'"step": 39')
        else:
            folder.files[name] = bytes(data) if damage == "flip" else bytes(data[:-9])
        again = network("binary", seed=4)
        trained = loop("binary", net=again, folder=folder, warnings=logged).run()
        assert trained.resumed_from == 39
        assert "is damaged" in logged[0]
        assert bits(again) == bits(whole)


def test_a_flipped_bit_in_the_best_weights_costs_no_more_than_the_newest_checkpoint() -> None:
    whole = network("binary")
    loop("binary", net=whole).run()
    folder = MemoryFolder()
    with pytest.raises(StopTraining):
        loop("binary", folder=folder, stop_after=40, checkpoint_every_s=0).run()
    (name,) = (name for name in files_of(folder, 40) if name.startswith("best-"))
    folder.files[name] = folder.files[name][:-1] + bytes([folder.files[name][-1] ^ 1])
    logged, again = list[str](), network("binary", seed=4)
    assert loop("binary", net=again, folder=folder, warnings=logged).run().resumed_from == 39
    assert f"{name} does not match its digest" in logged[0]
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
    assert steps_of(folder) == [10, 20, 30][-keep:]
    again = Checkpointer(folder, keep=keep, warn=pytest.fail).newest()
    assert again is not None
    assert again.state == {"step": 30}


@pytest.mark.parametrize("document", [b"[1]", b'"format"', b'{"format": 4}', b"{", b'{"format": 4, "content": 1}'])
def test_a_document_of_another_shape_counts_for_nothing(document: bytes) -> None:
    folder, logged = MemoryFolder(), list[str]()
    folder.put("step-0000000007.json", document)
    assert Checkpointer(folder, keep=1, warn=logged.append).newest() is None
    assert "the checkpoint of step 7 is" in logged[0]


def test_a_checkpoint_is_saved_although_an_old_one_cannot_be_removed() -> None:
    class Keeping(MemoryFolder):
        def remove(self, name: str) -> None:
            raise PermissionError(f"{name}: access denied")

    folder, logged = Keeping(), list[str]()
    with pytest.raises(StopTraining):
        loop("binary", folder=folder, stop_after=40, checkpoint_every_s=0, warnings=logged).run()
    assert steps_of(folder) == list(range(1, 41))
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
    ("room", "left"), [(0, "there is no earlier checkpoint"), (3, "the newest checkpoint is that of step 16")]
)
def test_a_training_that_cannot_save_its_state_at_a_notice_to_stop_says_so(room: int, left: str) -> None:
    with pytest.raises(SaveFailed, match=f"the state of step 20 could not be saved: no space left on device; {left}"):
        loop("binary", folder=Full(room), stop_after=20).run()


class Away(MemoryFolder):
    def put(self, name: str, data: bytes) -> None:
        raise NoAnswer("the bucket does not answer")


class Other:
    """The other rank has had this error."""

    def gather(self, said: dict[str, Any]) -> list[dict[str, Any]]:
        return [said, {"error": "NoAnswer: the bucket does not answer", "passes": True, "away": True}]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_store_that_is_away_at_a_notice_to_stop_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, *, elsewhere: bool
) -> None:
    """As where a training stops by itself because it has not reached its store for hours."""
    made = loop("binary", folder=MemoryFolder() if elsewhere else Away(), stop_after=20)
    if elsewhere:
        monkeypatch.setattr(made._checkpointer, "_behind", Other())
    nothing: Any = None
    ends = convert_endings(nothing, nothing, nothing, nothing)
    with pytest.raises(NoAnswer, match=r"the state of step 20 could not be saved: .*the bucket does not answer"), ends:
        made.run()


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


def test_a_save_waits_for_the_one_before_and_that_is_counted() -> None:
    class Slow(MemoryFolder):
        def put(self, name: str, data: bytes) -> None:
            threading.Timer(1.0, released.set).start()
            assert released.wait(60)
            super().put(name, data)

    released, folder = threading.Event(), Slow()
    checkpointer = Checkpointer(folder, keep=2, warn=pytest.fail)
    for step in (1, 2):
        checkpointer.save(Checkpoint(step=step, state={"weights": torch.ones(3)}))
    assert checkpointer.close() is None
    assert checkpointer.waits == 1
    assert checkpointer.stalls[1] > 0.03
    assert steps_of(folder) == [1, 2]
