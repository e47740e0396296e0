"""A file of a day that nothing names: a purge refuses it, and loses no row of another key."""

import errno
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact, NoAnswer, Unavailable
from ratchet.runtime.held_days import table_of
from ratchet.store.removals import removals
from tasks.keeping.files import table_files
from tests.keeping.test_purge import do, holders, made


@pytest.mark.parametrize(("number", "kind"), [(errno.ESTALE, NoAnswer), (errno.EIO, Unavailable)])
@pytest.mark.parametrize("at", ["read_metadata", "ParquetFile"])
def test_a_file_that_the_disk_does_not_give_for_a_moment_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Unavailable], at: str
) -> None:
    """A person was asked to restore it from a backup, or to delete it."""
    store = made(tmp_path, encoded=False).store

    def fails(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(pq, at, fails)
        with pytest.raises(kind, match=r"\.parquet cannot be read now: .*; to do: check the disk") as raised:
            do(store, do=False)
    assert type(raised.value) is kind
    file = tmp_path / "store" / table_files(store, "clicks")[0].entry.key
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(CorruptArtifact, match="cannot be searched"):
        do(store, do=False)


def test_a_day_whose_index_and_results_are_lost_is_refused_and_purged_once_it_is_published_again(
    tmp_path: Path,
) -> None:
    world = made(tmp_path, encoded=False)
    store = world.store
    first = table_files(store, "clicks")[0]
    for entry in list(store.list(paths.published("clicks"))):
        if entry.key.endswith(".json"):
            store.delete(entry.key)
    store.delete(paths.snapshot_index(table_of(world.spec)))
    before = {entry.key: entry.etag for entry in store.list("tables")}
    for doing in (False, True):
        with pytest.raises(
            ConfigurationError, match=rf"{first.entry.key}, and 2 more: it has rows of the key.* run {first.day} again"
        ):
            do(store, do=doing)
    assert {entry.key: entry.etag for entry in store.list("tables")} == before
    assert removals(store, "clicks") == []

    world.run("ingest")
    found = do(store)
    assert (len(found.found), {one.rows for one in found.found}) == (3, {4})
    assert holders(tmp_path / "store") == []
    left = [pq.read_table(path).num_rows for path in (tmp_path / "store" / "tables").rglob("*.parquet")]
    assert left == [56, 56, 56]
