"""A purge after a purge, after an interruption, and beside what killed stages and damage have left."""

from pathlib import Path
from typing import Any

import pytest

from ratchet.contracts import paths, summaries
from ratchet.contracts.environment import variable
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.request import Outcome
from ratchet.runs.index_document import rebuilt, write_index
from ratchet.store.cache import open_cache
from ratchet.store.publishing import read_manifest
from ratchet.store.removals import removals
from ratchet.store.version_records import keep_record
from tasks.keeping.copies import Copies
from tests.keeping.test_expire import register
from tests.keeping.test_purge import KEY, _newest, do, holders, made
from tests.store.test_version_records import record


def having(folder: Path, key: str) -> list[str]:
    """The files whose bytes have a key."""
    return [path.name for path in sorted(filter(Path.is_file, folder.rglob("*"))) if key.encode() in path.read_bytes()]


def test_each_of_several_purges_leaves_nothing_and_names_the_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, cache = tmp_path / "store", tmp_path / "cache"
    cache.mkdir(mode=0o700)
    monkeypatch.setenv(variable("cache"), str(cache))
    world = made(tmp_path)
    ingest, validate = _newest(world, "ingest"), _newest(world, "validate")
    snapshot = summaries.snapshot(read_manifest(world.store, ingest).result)
    register(world, "1", snapshot)
    other = record("7", "7" * 64).model_copy(update={"model": "v2", "pipeline": "clicks", "snapshot": snapshot})
    keep_record(world.store, other)
    for part in ("validate.day", "features.day", "ingest.day", "features", "report"):  # killed stages left these
        world.store.create(paths.published("clicks", part, "0" * 64) + "/att-1/left", KEY.encode())
    profile = read_manifest(world.store, validate).result.outputs["reference"]  # as a host of an S3 store has it
    kept = open_cache()
    assert kept is not None
    (tmp_path / "copy").write_bytes(world.store.read(profile.key))
    kept.adopt(tmp_path / "copy", profile.sha256)
    assert [*cache.rglob(profile.sha256)]

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Copies, "_runs", killed)
        with pytest.raises(KeyboardInterrupt):
            do(world.store)
    assert [*cache.rglob(profile.sha256)] == []
    assert {(one.model, one.version) for one in do(world.store).versions} == {("clicks", "1"), ("v2", "7")}
    assert holders(store) == []

    second = do(world.store, values=["user-1"])
    assert {(one.model, one.version) for one in second.versions} == {("clicks", "1"), ("v2", "7")}
    assert having(store, "user-1") == []
    assert "reference" in read_manifest(world.store, validate).result.outputs

    whole = (store / ingest).read_bytes()
    (store / ingest).write_bytes(whole[:-5])
    with pytest.raises(CorruptArtifact, match="is damaged"):
        do(world.store, values=["user-2"])
    assert len(removals(world.store, "clicks")) == 2
    world.store.delete(ingest)
    page = paths.kept("clicks", world.run_id, "validate", "checks.json")
    world.store.create(page, b"user-2")
    do(world.store, values=["user-2"])
    assert having(store, "user-2") == []


def test_a_purge_that_was_killed_before_it_deletes_the_lines_of_runs_deletes_them_when_it_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, index = made(tmp_path), paths.run_index("clicks")
    key = paths.outcome("clicks", world.run_id, "ingest")
    recorded = world.store.head(key)
    assert recorded is not None
    failed = Outcome(stage="ingest", state="failed", because=f"no row of {KEY}")
    world.store.replace(key, failed.model_dump_json(by_alias=True).encode(), expected=recorded.etag)
    write_index(world.store, "clicks", lambda _: rebuilt(world.store, "clicks"))
    assert KEY.encode() in world.store.read(index)
    real = type(world.store).delete

    def killed(self: Any, key: str, **given: Any) -> bool:
        if key == index:
            raise KeyboardInterrupt
        return real(self, key, **given)

    with monkeypatch.context() as patch:
        patch.setattr(type(world.store), "delete", killed)
        with pytest.raises(KeyboardInterrupt):
            do(world.store)
    do(world.store)
    assert world.store.head(index) is None
