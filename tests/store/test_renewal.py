"""A result of long ago is written again before it is taken, and one of today costs no call."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import Unavailable
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.result import PublishedResult
from ratchet.store.memory import MemoryStore
from ratchet.store.publishing import Transaction, find_result, read_manifest
from ratchet.store.renewal import renew
from ratchet.store.sealed import seal

PREFIX = paths.published("p", "train", digest(b"f"))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(uuid.uuid4().hex)


def published(store: MemoryStore, days: int) -> PublishedResult:
    """A result of so many days ago."""
    done = Transaction(store, PREFIX, "a").commit(
        stage="train", fingerprint=digest(b"f"), parts={}, content=digest(b"c")
    )
    then = done.result.model_copy(update={"finished": datetime.now(UTC) - timedelta(days=days)})
    entry = store.head(done.key)
    assert store.replace(done.key, seal(then), expected=entry.etag if entry else None)
    found = find_result(store, PREFIX)
    assert found is not None
    return found


def test_an_old_result_says_when_it_was_taken_and_is_otherwise_as_it_was(store: MemoryStore) -> None:
    before = published(store, 30)
    assert b'"used"' not in store.read(before.key)
    assert renew(store, before)
    after = read_manifest(store, before.key)
    assert after.result.used is not None
    assert after.result.model_copy(update={"used": None}) == before.result
    written = store.head(before.key)
    assert renew(store, before)  # whoever read it before: it is young now
    assert store.head(before.key) == written


def test_a_result_of_today_is_taken_without_a_call(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    found = published(store, 0)
    monkeypatch.delattr(MemoryStore, "head")
    assert renew(store, found)


def test_what_is_gone_or_damaged_is_not_taken(store: MemoryStore) -> None:
    found = published(store, 30)
    store.delete(found.key)
    assert not renew(store, found)
    store.create(found.key, b"{}")
    assert not renew(store, found)


def test_it_gives_up_where_others_write_without_end(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    found = published(store, 30)

    def refuse(*_: Any, **__: Any) -> bool:
        return False

    monkeypatch.setattr(MemoryStore, "replace", refuse)
    with pytest.raises(Unavailable, match="keep writing it"):
        renew(store, found)
