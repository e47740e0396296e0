"""A disk that fills up while a result is written: said plainly, nothing half-written visible, old results intact."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

from ratchet.contracts import paths
from ratchet.contracts.errors import Unavailable
from ratchet.contracts.fingerprint import digest
from ratchet.store.file import FileStore
from ratchet.store.publishing import Transaction, find_result, verify
from ratchet.tracking.mlflow import Tracker, track
from tasks.train.disk_table import DiskBuilder
from tasks.train.table import Layout
from tests.mlflow_server import prepare

MIB = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "ratchet-test", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        # lazily: MLflow keeps its database open until this process ends
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def prefix(name: str) -> str:
    return paths.published("example", "train", digest(name.encode()))


def test_a_full_disk_is_said_plainly_and_harms_nothing(small_disk: Path, tmp_path: Path) -> None:
    store = FileStore(small_disk / "store")
    old = Transaction(store, prefix("old"), "one")
    old.add_bytes("weights", b"w" * MIB)
    found = old.commit(stage="train", fingerprint=digest(b"old"), parts={}, content=digest(b"w"))
    store.create("run/outcome.json", b"before")
    before = list(store.list())

    big = tmp_path / "big"
    big.write_bytes(b"x" * 6 * MIB)
    new = Transaction(store, prefix("new"), "one")
    full = rf"{small_disk}/store/.*: the disk is full, [\d,]+ bytes are free; nothing was changed; to do: free space"
    with pytest.raises(Unavailable, match=full):
        new.add("weights", big)
    with pytest.raises(Unavailable, match=full):
        new.add_bytes("weights", big.read_bytes())
    entry = store.head("run/outcome.json")
    assert entry is not None
    with pytest.raises(Unavailable, match=full):
        store.replace("run/outcome.json", big.read_bytes(), expected=entry.etag)

    assert list(store.list()) == before
    assert store.read("run/outcome.json") == b"before"
    assert find_result(store, prefix("new")) is None
    assert verify(store, found) == []
    assert not list(small_disk.rglob("*.tmp"))


def test_a_manifest_that_finds_no_room_leaves_the_result_unpublished_until_there_is(small_disk: Path) -> None:
    store = FileStore(small_disk / "store")
    transaction = Transaction(store, prefix("new"), "one")
    transaction.add_bytes("weights", b"w")
    filler = small_disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"0" * 4096)

    def commit() -> bool:
        done = transaction.commit(stage="train", fingerprint=digest(b"new"), parts={}, content=digest(b"w"))
        return done.reused

    with pytest.raises(Unavailable, match="the disk is full"):
        commit()
    assert find_result(store, prefix("new")) is None
    filler.unlink()
    assert not commit()
    found = find_result(store, prefix("new"))
    assert found is not None
    assert verify(store, found) == []


def test_a_download_that_finds_no_room_is_said_plainly(small_disk: Path, tmp_path: Path) -> None:
    store = FileStore(tmp_path / "store")
    store.create("big", b"x" * 6 * MIB)
    with pytest.raises(Unavailable, match=f"{small_disk}/copy: the disk is full"):
        store.download("big", small_disk / "copy")


def test_a_disk_that_is_full_for_mlflow_is_said_plainly_and_space_heals_it(
    small_disk: Path, mlflow_database: Path, tmp_path: Path
) -> None:
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    store = prepare(FileStore(small_disk / "store"), mlflow_database)
    filler = small_disk / "filler"

    def write(tracker: Tracker) -> str:
        run = tracker.run(tracker.experiment("notes"), tag="ratchet.note", value="a", name="notes")
        for number in range(50):
            tracker.client.set_tag(run, f"note-{number}", "x" * 4000)
        return run

    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"0" * 4096)
    with pytest.raises(Unavailable, match=r"MLflow at .*: the disk is full; to do: free space"):
        track(store, None, tmp_path, write)
    filler.unlink()
    assert track(store, None, tmp_path, write)


def test_a_table_of_a_training_that_finds_no_room_is_said_plainly_and_nothing_is_left(small_disk: Path) -> None:
    layout = Layout(label=torch.float32, weighted=False, numeric=5, categorical=4)
    full = rf"{small_disk}: the disk is full, [\d,]+ bytes are free; .* take [\d,]+ bytes there.*; to do: free space"
    with pytest.raises(Unavailable, match=full):
        DiskBuilder(layout, 100_000, small_disk)
    builder = DiskBuilder(layout, 40_000, small_disk, bucket_bytes=100_000)
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"0" * 4096)
    with pytest.raises(Unavailable, match=full):
        builder.add(np.zeros((40_000, layout.width), np.int32), np.arange(40_000, dtype=np.int32))
    filler.unlink()
    del builder
    assert list(small_disk.iterdir()) == []
    assert shutil.disk_usage(small_disk).used < MIB
