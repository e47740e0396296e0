"""The document with the newest alerts that reached nobody: one request for a page, and no alert is left out."""

import os
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ratchet.contracts import outbox_paths
from ratchet.contracts.errors import Unavailable
from ratchet.outbox.letter import Letter
from ratchet.outbox.lost_letters import MOST, lost_letters, note_lost_letter, renew_lost_letters
from ratchet.outbox.outbox import Outbox
from ratchet.store.base import Entry, Store
from ratchet.store.file import FileStore
from ratchet.store.memory import MemoryStore
from tests.store_calls import counted_calls

NOW = datetime(2026, 11, 28, 3, tzinfo=UTC)
KEY = outbox_paths.newest_undelivered("here", "p")


def letter(title: str, *, minutes: int = 0, pipeline: str = "p") -> Letter:
    made = NOW + timedelta(minutes=minutes)
    return Letter(
        event=f"e/{title}", receiver="oncall", pipeline=pipeline, occasion="failure", title=title, body="",
        kind="failure", made=made, due=made,
    )  # fmt: skip


def give_up(store: Store, one: Letter) -> str:
    """Keep it as one that reached nobody, without the document; its key."""
    key = outbox_paths.given_up("here", one.pipeline, one.receiver, one.event)
    store.create(key, one.model_dump_json().encode())
    return key


def titles(store: Store) -> list[str]:
    return [one.title for one in lost_letters(store, "here", "p")]


def test_the_newest_are_shown_in_one_request_and_those_that_were_known_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(tmp_path)
    for number in range(MOST + 5):
        at = NOW.timestamp() + number
        os.utime(tmp_path / give_up(store, letter(f"{number}", minutes=number)), (at, at))
    renew_lost_letters(store, "here", "p")
    one = letter("last", minutes=99)
    last = give_up(store, one)
    for calls_then in (["head", "read", "replace"], ["head", "read"]):
        with counted_calls(monkeypatch) as calls:
            note_lost_letter(store, "here", last, one)
        assert sorted(calls) == calls_then
    with counted_calls(monkeypatch) as calls:
        assert titles(store) == [*(f"{number}" for number in range(6, MOST + 5)), "last"]
    assert calls == ["read"]
    store.delete(last)  # after its time
    renew_lost_letters(store, "here", "p")
    assert titles(store) == [f"{number}" for number in range(5, MOST + 5)]


def test_in_a_copy_of_a_store_the_newest_are_those_that_were_made_last(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    for number in range(MOST + 5):
        at = NOW.timestamp() - number  # the other way round
        os.utime(tmp_path / give_up(store, letter(f"{number}", minutes=number)), (at, at))
    for _ in range(2):
        renew_lost_letters(store, "here", "p")
        assert titles(store) == [f"{number}" for number in range(5, MOST + 5)]


def test_a_letter_is_on_the_page_before_it_leaves_the_outbox(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore(uuid.uuid4().hex)
    outbox = Outbox(
        store=store, installation="here", addresses=lambda _: [], send=lambda *_: False, given_up=lambda _: None
    )
    one = letter("a")
    assert outbox.post(one.event, b"{}", [one])
    with monkeypatch.context() as patched:

        def killed(*_: object, **__: object) -> bool:
            raise KeyboardInterrupt

        patched.setattr(store, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            outbox.deliver(one)
    assert store.head(outbox.key(one)) is not None  # so the next one begins with it again
    outbox.deliver(one)
    assert (store.head(outbox.key(one)), titles(store)) == (None, ["a"])


@pytest.mark.parametrize("content", [b"{", b'{"letters": 3}', b'{"needs": {"colours": "9.0.0"}}'])
def test_a_document_that_cannot_be_read_is_written_again(content: bytes) -> None:
    store = MemoryStore(uuid.uuid4().hex)
    store.create(KEY, content)
    give_up(store, letter("a"))
    store.create(outbox_paths.given_up("here", "p", "oncall", "damaged"), b"{")
    assert titles(store) == []
    renew_lost_letters(store, "here", "p")
    assert titles(store) == ["a"]


def test_no_writer_loses_the_letter_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore(uuid.uuid4().hex)
    give_up(store, letter("a"))
    real = store.list

    def between(prefix: str = "") -> Iterator[Entry]:
        found = list(real(prefix))
        monkeypatch.setattr(store, "list", real)
        other = letter("b", minutes=1)
        note_lost_letter(store, "here", give_up(store, other), other)
        return iter(found)

    monkeypatch.setattr(store, "list", between)
    renew_lost_letters(store, "here", "p")
    assert titles(store) == ["a", "b"]


def test_writers_that_are_always_faster_are_said_and_a_letter_that_is_removed_meanwhile_is_none(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore(uuid.uuid4().hex)
    gone = give_up(store, letter("a"))
    entries = list(store.list(outbox_paths.undelivered("here", "p")))
    store.delete(gone)
    monkeypatch.setattr("ratchet.store.documents._WAIT_S", 0.0)
    with monkeypatch.context() as patched:
        patched.setattr(store, "list", lambda _: iter(entries))
        renew_lost_letters(store, "here", "p")
        assert store.head(KEY) is None  # nothing has changed
    give_up(store, letter("b"))
    with monkeypatch.context() as patched:
        patched.setattr(store, "replace", lambda *_, **__: False)
        renew_lost_letters(store, "here", "p")
    assert "the list of those about p that reached nobody is not written: others write it" in caplog.text


def test_a_page_says_nothing_of_alerts_while_the_store_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore(uuid.uuid4().hex)

    def away(_: str) -> bytes:
        raise Unavailable("the store is away")

    monkeypatch.setattr(store, "read", away)
    with pytest.raises(Unavailable):
        lost_letters(store, "here", "p")
