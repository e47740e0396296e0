"""Where the table of a training is changes none of its bits."""

from pathlib import Path

import pytest

from ratchet.contracts import summaries
from ratchet.contracts.errors import CorruptArtifact
from tasks.train import days
from tests.train.test_stage import prepare, weights


@pytest.mark.parametrize("objective", ["ranking", "regression"])
def test_a_training_whose_table_is_on_the_disk_ends_with_the_same_bits(
    tmp_path: Path, objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainings = prepare(tmp_path, objective)
    memory = trainings.train(run="memory")
    monkeypatch.setattr(days, "_is_memory", lambda _: False)
    monkeypatch.setattr(days, "IN_MEMORY", 1e-6)
    monkeypatch.setattr(days, "_BLOCK_ROWS", 500)
    disk = trainings.train(run="disk")
    assert weights(trainings, disk) == weights(trainings, memory)
    assert disk.result.content == memory.result.content
    messages = [event["message"] for event in trainings.events("table")]
    bytes_of_row = {"ranking": 4 + 4 + 4 + 4, "regression": 8 + 4 + 4 + 4}[objective]
    text = f"4,500 rows take {4500 * bytes_of_row:,} bytes, and "
    assert messages[0].startswith(f"the rows are in memory: {text}50% of resources.train.memory are 2,147,483,648")
    assert messages[1].startswith("the rows are on the disk of ")
    assert text in messages[1]


def test_where_files_are_in_memory_too_the_table_stays_in_memory_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainings = prepare(tmp_path, "binary")
    monkeypatch.setattr(days, "IN_MEMORY", 1e-6)
    monkeypatch.setattr(days, "_is_memory", lambda _: True)
    trainings.train()
    (event,) = trainings.events("table")
    assert event["level"] == "warning"
    assert event["message"].endswith("is in memory too: name a cache on a disk, or raise resources.train.memory")


def test_files_of_a_memory_disk_are_in_memory_and_those_of_the_store_are_not(tmp_path: Path) -> None:
    assert days._is_memory(Path("/dev/shm"))
    assert not days._is_memory(Path("/proc/self"))


def test_a_day_with_another_byte_is_refused_while_others_are_read(tmp_path: Path) -> None:
    trainings = prepare(tmp_path, "binary")
    day = summaries.features(trainings.inputs["features"].result).days[1]
    path = trainings.nights.store.local(day.arrays["numeric"].key)
    assert path is not None
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptArtifact, match=rf"{day.arrays['numeric'].key} is damaged: sha256"):
        trainings.train()
