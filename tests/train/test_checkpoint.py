"""A checkpoint is whole or is not used; saving never ends a training."""

import pytest

from tasks.train.loop import StopTraining
from tests.train.miniature import MemoryFolder, bits, loop, network


def test_the_newest_checkpoints_are_kept() -> None:
    folder = MemoryFolder()
    loop("binary", folder=folder, checkpoint_every_s=0).run()
    assert sorted(name for name in folder.files if name.endswith(".json")) == [
        "step-0000000047.json",
        "step-0000000048.json",
    ]
    assert len(folder.files) == 4


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
        folder.files[document] = folder.files[document].replace(b'"epoch": 3', b'"epoch": 2')
    else:
        folder.files[newest] = bytes(data) if damage == "flip" else bytes(data[:-9])
    again = network("binary", seed=4)
    trained = loop("binary", net=again, folder=folder, warnings=logged).run()
    assert trained.resumed_from == 39
    assert "is damaged" in logged[0]
    assert bits(again) == bits(whole)


def test_a_save_that_fails_is_logged_and_training_continues() -> None:
    class Full(MemoryFolder):
        def put(self, name: str, data: bytes) -> None:
            raise OSError("no space left on device")

    logged: list[str] = []
    trained = loop("binary", folder=Full(), warnings=logged).run()
    assert len(trained.history) == 3
    assert len(logged) == 3
    assert "no space left on device" in logged[0]
