"""One flipped bit: refused by name, and what was cached is made again."""

from pathlib import Path

import pytest

from ratchet.contracts.errors import CorruptArtifact
from ratchet.store.artifacts import fetch
from ratchet.store.file import FileStore
from ratchet.store.publishing import MANIFEST, discard_damaged, find_result, verify
from tests.faults.damaged import KINDS, PREFIX, file_of, places, publish


def flip(path: Path, offset: int, bit: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0] ^ (1 << bit)
        file.seek(offset)
        file.write(bytes([byte]))


@pytest.mark.parametrize("name", KINDS)
def test_a_flipped_bit_in_an_artifact_is_refused_by_name_and_made_again(name: str, tmp_path: Path) -> None:
    store = FileStore(tmp_path / "store")
    found = publish(store, "one")
    path = file_of(store, found, name)
    for offset in places(path.stat().st_size):
        flip(path, offset)
        with pytest.raises(CorruptArtifact, match=rf"{path} is damaged: sha256 .* instead of"):
            fetch(store, found.result.outputs[name], tmp_path)
        flip(path, offset)
        assert fetch(store, found.result.outputs[name], tmp_path) == path
    flip(path, 100)
    assert verify(store, found) == discard_damaged(store, PREFIX) == [name]
    again = publish(store, "two")
    assert not again.reused
    assert verify(store, again) == []


def test_a_flipped_bit_anywhere_in_a_manifest_is_refused_by_name(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "store")
    found = publish(store, "one")
    path = file_of(store, found, MANIFEST)
    for offset in range(path.stat().st_size):
        flip(path, offset, bit=offset % 8)
        with pytest.raises(CorruptArtifact, match=f"{path} is damaged"):
            find_result(store, PREFIX)
        flip(path, offset, bit=offset % 8)
    assert find_result(store, PREFIX) is not None
    flip(path, path.stat().st_size // 2)
    assert discard_damaged(store, PREFIX) == [MANIFEST]
    assert not publish(store, "two").reused
