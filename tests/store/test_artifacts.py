"""Reading artifacts, verified."""

import hashlib
from pathlib import Path

import pytest

from ratchet.contracts.errors import CorruptArtifact, OtherRelease
from ratchet.contracts.result import Artifact
from ratchet.store.artifacts import fetch, read_bytes, read_json, sha256_file
from ratchet.store.base import Store
from ratchet.store.memory import MemoryStore
from ratchet.store.opening import open_store


@pytest.fixture
def store(store_uri: str) -> Store:
    return open_store(store_uri)


def stored(store: Store, data: bytes, key: str = "a/file.npy") -> Artifact:
    store.create(key, data)
    return Artifact(key=key, sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))


def test_the_digest_of_a_file_is_that_of_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 3_000_000)
    assert sha256_file(tmp_path / "file") == hashlib.sha256(b"x" * 3_000_000).hexdigest()


def test_fetched_bytes_are_the_stored_bytes(store: Store, tmp_path: Path) -> None:
    artifact = stored(store, b"0123456789")
    path = fetch(store, artifact, tmp_path)
    assert path.read_bytes() == b"0123456789"
    assert path.name.endswith("file.npy")
    assert fetch(store, artifact, tmp_path) == path


def test_folders_are_read_in_place_and_nothing_is_copied(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    assert fetch(store, stored(store, b"1"), scratch) == tmp_path / "store/a/file.npy"
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    "data", [b"012345678", b"0123456789+", b"012345678X", b""], ids=["cut", "long", "flipped", "empty"]
)
def test_damaged_bytes_are_refused_by_name_and_leave_nothing(store: Store, tmp_path: Path, data: bytes) -> None:
    artifact = stored(store, b"0123456789")
    store.delete(artifact.key)
    store.create(artifact.key, data)
    for read in (lambda: fetch(store, artifact, tmp_path / "s"), lambda: read_bytes(store, artifact)):
        (tmp_path / "s").mkdir(exist_ok=True)
        with pytest.raises(CorruptArtifact, match=r"a/file.npy is damaged: .* instead of .*; to do: run again"):
            read()
    assert list((tmp_path / "s").iterdir()) == []


def test_a_file_that_is_gone_is_named(store: Store, tmp_path: Path) -> None:
    artifact = Artifact(key="a/gone", sha256="0" * 64, bytes=1)
    for read in (lambda: fetch(store, artifact, tmp_path), lambda: read_bytes(store, artifact)):
        with pytest.raises(CorruptArtifact, match="a/gone is gone"):
            read()


def test_documents_are_read_verified(store: Store) -> None:
    inner = Artifact(key="x", sha256="0" * 64, bytes=1)
    assert read_json(store, stored(store, inner.model_dump_json().encode()), Artifact) == inner
    with pytest.raises(OtherRelease, match="b cannot be read by Ratchet"):
        read_json(store, stored(store, b"{}", "b"), Artifact)


def test_bytes_damaged_during_the_download_are_fetched_again(tmp_path: Path) -> None:
    class Spoiling(MemoryStore):
        spoiled = 0

        def download(self, key: str, path: Path) -> None:
            super().download(key, path)
            if not self.spoiled:
                self.spoiled += 1
                path.write_bytes(b"?" * path.stat().st_size)

    store = Spoiling("spoiling")
    assert fetch(store, stored(store, b"0123456789"), tmp_path).read_bytes() == b"0123456789"
    assert store.spoiled == 1
