"""Truncated files: refused by name, and what was cached is made again."""

from pathlib import Path

import pytest

from ratchet.contracts.errors import CorruptArtifact
from ratchet.store.artifacts import fetch
from ratchet.store.file import FileStore
from ratchet.store.publishing import MANIFEST, discard_damaged, find_result, verify
from tests.faults.damaged import KINDS, PREFIX, file_of, places, publish


@pytest.mark.parametrize("name", KINDS)
def test_a_truncated_artifact_is_refused_by_name_and_made_again(name: str, tmp_path: Path) -> None:
    store = FileStore(tmp_path / "store")
    found = publish(store, "one")
    path = file_of(store, found, name)
    for size in reversed(places(path.stat().st_size)):
        with path.open("r+b") as file:
            file.truncate(size)
        with pytest.raises(CorruptArtifact, match=rf"{path} is damaged: {size:,} bytes instead of"):
            fetch(store, found.result.outputs[name], tmp_path)
        assert verify(store, found) == [name]
    assert discard_damaged(store, PREFIX) == [name]
    again = publish(store, "two")
    assert not again.reused
    assert verify(store, again) == []
    assert again.result.outputs[name].sha256 == found.result.outputs[name].sha256


def test_a_truncated_manifest_is_refused_by_name_and_made_again(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "store")
    path = file_of(store, publish(store, "one"), MANIFEST)
    for size in reversed(range(0, path.stat().st_size, 7)):
        with path.open("r+b") as file:
            file.truncate(size)
        with pytest.raises(CorruptArtifact, match=rf"{path} is damaged: its {size:,} bytes"):
            find_result(store, PREFIX)
    assert discard_damaged(store, PREFIX) == [MANIFEST]
    assert not publish(store, "two").reused
