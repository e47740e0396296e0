"""A document of a newer release that this one changes keeps what this one does not know."""

import uuid
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import OtherRelease
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.result import PublishedResult
from ratchet.runs.history import plan_of
from ratchet.runs.standstill import only_removal
from ratchet.runtime.held_days import hold, read_index, table_of
from ratchet.runtime.parts_index import indexed_parts
from ratchet.store.base import Store
from ratchet.store.documents import replace_document
from ratchet.store.ending import mark_ending
from ratchet.store.lease import Waiter, holder_of, new_lease
from ratchet.store.memory import MemoryStore
from ratchet.store.publishing import Transaction, read_manifest
from ratchet.store.removals import keep, removals
from ratchet.store.renewal import renew
from tasks.evaluate.passing import raise_passing
from tests.keeping.test_purge import do, made
from tests.releases.another import ADDED, content, write
from tests.runs.recorded import keep_plan
from tests.runs.test_requests import plan
from tests.waiting import until


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(uuid.uuid4().hex)


def etag(store: Store, key: str) -> str:
    entry = store.head(key)
    assert entry is not None
    return entry.etag


def test_the_beat_and_the_end_of_a_lease_keep_it(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ratchet.store.lease.BEAT_S", 0.01)
    key = paths.lease("shop", "train", "f" * 64)
    held = Waiter(store, key, new_lease("ours", "our-attempt")).take()
    assert held is not None
    while ADDED.keys() - content(store, key).keys():
        try:
            write(store, key, ADDED)
        except AssertionError:
            continue  # a beat was faster
    beats = content(store, key)["beat"]
    until(lambda: content(store, key)["beat"] > beats + 1)
    assert mark_ending(store, key, "our-attempt")
    found = content(store, key)
    assert {**found, **ADDED} == found
    known = holder_of(store, key)
    assert known is not None
    assert known.ending
    assert held.release()


def test_a_plan_that_is_changed_keeps_it_at_each_depth(store: MemoryStore) -> None:
    ours = keep_plan(store, plan())
    key = paths.plan(ours.spec.name, ours.run_id)
    before = content(store, key)
    sources = [{**one, **ADDED} for one in before["source"]]
    write(store, key, {**ADDED, "pins": {**before["pins"], **ADDED}, "source": sources})
    read = plan_of(store, ours.spec.name, ours.run_id)
    assert read is not None
    left = read.model_copy(update={"source": read.source[1:], "started_by": "Ada"})
    assert replace_document(store, key, left, expected=etag(store, key))
    after = content(store, key)
    assert (after["started_by"], after["pins"], after["of_a_newer_release"]) == (
        "Ada",
        {**before["pins"], **ADDED},
        {"a": [1]},
    )
    assert after["source"] == sources[1:]
    assert plan_of(store, ours.spec.name, ours.run_id) == left
    assert not replace_document(store, key, left, expected="0" * 32)
    assert not replace_document(store, "runs/none", left, expected="0" * 32)


def test_a_result_that_is_taken_again_keeps_it(store: MemoryStore) -> None:
    transaction = Transaction(store, paths.published("shop", "train", "f" * 64), "a")
    transaction.add_bytes("weights", b"0123456789")
    made = transaction.commit(stage="train", fingerprint="f" * 64, parts={}, content="c" * 64)
    old = (made.result.finished - timedelta(days=9)).isoformat()
    write(store, made.key, {**ADDED, "finished": old})
    found = read_manifest(store, made.key)
    assert renew(store, found)
    assert content(store, made.key)["of_a_newer_release"] == {"a": [1]}
    assert read_manifest(store, made.key).result.used is not None


def test_the_index_of_days_and_a_removal_keep_it(tmp_path: Path) -> None:
    world = made(tmp_path, encoded=False)
    store, index = world.store, paths.snapshot_index(table_of(world.spec))
    write(store, index, ADDED)
    days = read_index(store, world.spec).days
    newest = max(days)
    hold(store, world.spec, {newest: days[newest].model_copy(update={"version": 7})}, replace=True)
    assert content(store, index)["of_a_newer_release"] == {"a": [1]}
    do(store)
    assert content(store, index)["of_a_newer_release"] == {"a": [1]}
    (entry,) = store.list(paths.removals("clicks"))
    write(store, entry.key, ADDED)
    (removal,) = removals(store, "clicks")

    with only_removal(store, "clicks", "Ada", wait_s=1) as ours:
        keep(store, "clicks", removal.model_copy(update={"because": "asked again"}), ours)
    assert (content(store, entry.key)["because"], content(store, entry.key)["of_a_newer_release"]) == (
        "asked again",
        {"a": [1]},
    )


def test_a_collection_does_not_take_an_index_of_parts_of_another_release_for_an_empty_one(store: MemoryStore) -> None:
    transaction = Transaction(store, paths.published("shop", "train", "f" * 64), "a")
    found = transaction.commit(stage="train", fingerprint="f" * 64, parts={}, content="c" * 64)
    line = PublishedResult.model_dump_json(found).encode().replace(b'{"key"', b'{"needs":{"tides":"9.9"},"key"', 1)
    body = b"%s\t{}\t%s\n" % (b"f" * 64, line)
    store.create("index", digest(body).encode() + b"\n" + body)
    with pytest.raises(OtherRelease, match="needs tides"):
        indexed_parts(store, "index")


def test_a_champion_of_another_release_is_waited_for_and_is_no_reason_of_a_verdict() -> None:
    with pytest.raises(OtherRelease):
        raise_passing(OtherRelease("it needs tides"))
