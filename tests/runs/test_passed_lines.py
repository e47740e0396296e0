"""Lines that a follower passes on through the store."""

import errno
import json
import os
import uuid
from collections.abc import Iterator

import pytest

from ratchet.contracts import left_paths
from ratchet.contracts.errors import NoAnswer
from ratchet.runners.log.position import Mark, Position, discard
from ratchet.runs import passed_lines
from ratchet.runs.events import Event
from ratchet.runs.left_elsewhere import take_back
from ratchet.runs.passed_lines import PassedLines, read_lines
from ratchet.store.base import Entry
from ratchet.store.memory import MemoryStore

PLACE = left_paths.left("i", "host/1", "a-1")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(uuid.uuid4().hex)


def said(number: int) -> Event:
    return Event(name="progress", level="info", message=f"step {number}", time="t", fields={"step": number})


def read(store: MemoryStore) -> list[Event]:
    return list(read_lines(store, list(store.list(PLACE))))


def test_what_is_heard_is_read_once_and_in_its_order(store: MemoryStore) -> None:
    lines = PassedLines(store, PLACE)
    for number in range(3):
        lines.hear(said(number))
    lines.look(0)
    lines.hear(said(3))
    lines.look(1)
    lines.look(2)
    assert len(list(store.list(PLACE))) == 2
    assert read(store) == [said(number) for number in range(4)]
    assert read(store) == []


def test_a_follower_that_begins_again_overwrites_no_part(store: MemoryStore) -> None:
    for number in range(2):
        lines = PassedLines(store, PLACE)
        lines.hear(said(number))
        lines.look(number)
    assert read(store) == [said(0), said(1)]


def test_what_the_next_follower_passes_on_comes_after_what_nobody_has_read_yet(store: MemoryStore) -> None:
    lines = PassedLines(store, PLACE)
    for number in range(3):
        lines.hear(said(number))
        lines.look(number)
    for number in range(2):  # those were read
        store.delete(left_paths.lines(PLACE, number))
    assert left_paths.next_lines([]) == left_paths.next_lines([left_paths.job(PLACE)]) == 0
    keys = [entry.key for entry in store.list(PLACE)]
    lines = PassedLines(store, PLACE, left_paths.next_lines(keys))
    lines.hear(said(3))
    lines.look(1)
    assert read(store) == [said(2), said(3)]


def test_a_part_that_is_not_read_to_its_end_is_read_again(store: MemoryStore) -> None:
    lines = PassedLines(store, PLACE)
    lines.hear(said(0))
    lines.look(0)
    next(read_lines(store, list(store.list(PLACE))))
    assert read(store) == [said(0)]


def test_a_part_that_cannot_be_deleted_is_taken_once(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, taken, heard = PassedLines(store, PLACE), set[Entry](), list[Event]()

    def away(*_: object) -> bool:
        raise NoAnswer("the store does not answer")

    def look() -> None:
        for event in read_lines(store, list(store.list(PLACE)), taken):
            heard.append(event)

    lines.hear(said(0))
    lines.look(0)
    with monkeypatch.context() as patched:
        patched.setattr(store, "delete", away)
        for _ in range(2):
            with pytest.raises(NoAnswer):
                look()
    lines.hear(said(1))
    lines.look(1)
    look()
    assert heard == [said(0), said(1)]
    assert (taken, list(store.list(PLACE))) == (set(), [])


def test_a_part_with_the_number_of_one_that_was_deleted_with_a_lost_answer_is_read(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The follower began again meanwhile, and saw no part."""
    lines, far, heard = PassedLines(store, PLACE), set[Entry](), list[Event]()

    def answer_is_lost(key: str) -> bool:
        MemoryStore.delete(store, key)
        raise NoAnswer("the answer is lost")

    def look() -> None:
        for event in read_lines(store, list(store.list(PLACE)), far):
            heard.append(event)

    lines.hear(said(0))
    lines.look(0)
    with monkeypatch.context() as patched:
        patched.setattr(store, "delete", answer_is_lost)
        with pytest.raises(NoAnswer):
            look()
    lines = PassedLines(store, PLACE, left_paths.next_lines([]))
    lines.hear(said(1))
    lines.look(0)
    look()
    assert heard == [said(0), said(1)]
    assert (far, list(store.list(PLACE))) == (set(), [])


@pytest.mark.parametrize("moment", range(1, 4))
def test_no_line_is_lost_that_is_passed_on_while_the_task_takes_the_job_back(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """Either the task hears it, or it is after the position from which the task reads on."""
    handle, lines, heard, looks = uuid.uuid4().hex, PassedLines(store, PLACE), list[Event](), list[str]()
    store.create(left_paths.job(PLACE), b"{}")
    after = Position((Mark(b"2026-11-20T00:00:01Z", 1), Mark()))

    def passes_on_meanwhile(prefix: str = "") -> Iterator[Entry]:
        looks.append(prefix)
        if len(looks) == moment:
            lines.look(0)
        return MemoryStore.list(store, prefix)

    try:
        with lines.positions(handle) as kept:
            lines.hear(said(0))
            kept.write(after)
            with monkeypatch.context() as patched:
                patched.setattr(store, "list", passes_on_meanwhile)
                take_back(store, PLACE, heard.append)
            assert (heard, kept.read()) in [([said(0)], after), ([said(0)], Position()), ([], Position())]
        assert list(store.list(PLACE)) == []
    finally:
        discard(handle)


@pytest.mark.parametrize(("limit", "most"), [("_MOST_BYTES", 1000), ("_MOST_LINES", 10)])
def test_while_nobody_reads_lines_are_counted_and_neither_the_store_nor_memory_grows(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(passed_lines, limit, most)
    lines = PassedLines(store, PLACE)
    for number in range(100):
        lines.hear(said(number))
        lines.look(len(list(store.list(PLACE))))
    assert len(list(store.list(PLACE))) == 20
    lines.look(0)
    events = read(store)
    kept = len(events) - 1
    assert events[:-1] == [said(number) for number in range(kept)]
    assert events[-1].message.startswith(f"{100 - kept} lines before this one are not shown")
    lines.look(0)
    assert list(store.list(PLACE)) == []


def test_what_the_store_does_not_take_is_passed_on_later(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = PassedLines(store, PLACE)
    lines.hear(said(0))

    def away(*_: object) -> bool:
        raise NoAnswer("the store does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(store, "create", away)
        lines.look(0)
    lines.hear(said(1))
    lines.look(0)
    assert read(store) == [said(0), said(1)]


def test_what_another_release_wrote_is_shown(store: MemoryStore) -> None:
    newer = {"name": "info", "level": "info", "message": "new", "colour": "red"}
    data = b"\n".join([json.dumps(newer).encode(), b"[]", b"not \xff json"])
    store.create(left_paths.lines(PLACE, 0), data)
    assert [event.message for event in read(store)] == ["new", "[]", "not � json"]


def test_a_position_is_kept_once_the_lines_before_it_are_passed_on(store: MemoryStore) -> None:
    handle, lines = uuid.uuid4().hex, PassedLines(store, PLACE)
    store.create(left_paths.job(PLACE), b"{}")
    at = [Position((Mark(f"2026-11-20T00:00:0{number}Z".encode(), 1), Mark())) for number in range(3)]
    try:
        with lines.positions(handle) as kept:
            for number in range(2):
                lines.hear(said(number))
                kept.write(at[number])
            assert kept.read() == Position()
            lines.look(0)
            assert kept.read() == at[1]
            lines.hear(said(2))
            lines.look(0)  # between the line and its position
            kept.write(at[2])
            assert kept.read() == at[2]
    finally:
        discard(handle)


def test_a_position_that_cannot_be_kept_holds_nothing_up(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a disk that was mounted read-only: the follower still ends jobs, and begins with others."""
    handle, lines = uuid.uuid4().hex, PassedLines(store, PLACE)
    store.create(left_paths.job(PLACE), b"{}")

    def refuses(*_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    try:
        with lines.positions(handle) as kept, monkeypatch.context() as patched:
            patched.setattr(os, "open", refuses)
            lines.hear(said(0))
            kept.write(Position((Mark(b"2026-11-20T00:00:01Z", 1), Mark())))
            lines.look(0)
            kept.write(Position((Mark(b"2026-11-20T00:00:02Z", 1), Mark())))
        assert read(store) == [said(0)]
    finally:
        discard(handle)


def test_lines_that_nobody_has_read_reach_the_task_that_goes_on(store: MemoryStore) -> None:
    """As after a follower that came back while the task waited for a worker: its position is after them."""
    lines, heard = PassedLines(store, PLACE), list[Event]()
    store.create(left_paths.job(PLACE), b"{}")
    for number in range(3):
        lines.hear(said(number))
    lines.look(0)
    take_back(store, PLACE, heard.append)
    assert heard == [said(number) for number in range(3)]
    assert list(store.list(PLACE)) == []


def test_what_is_printed_fast_is_passed_on_before_the_next_look(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passed_lines, "_A_PART", 10)
    lines = PassedLines(store, PLACE)
    for number in range(105):
        lines.hear(said(number))
    parts = list(store.list(PLACE))
    assert len(parts) == 10
    lines.look(len(parts))
    assert read(store) == [said(number) for number in range(105)]


def test_a_store_that_is_away_is_asked_once_a_look(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passed_lines, "_A_PART", 1)
    asked = list[int]()

    def away(*_: object) -> bool:
        asked.append(1)
        raise NoAnswer("the store does not answer")

    lines = PassedLines(store, PLACE)
    with monkeypatch.context() as patched:
        patched.setattr(store, "create", away)
        for number in range(10):
            lines.hear(said(number))
        assert len(asked) == 1
        lines.look(0)
        assert len(asked) == 2
    lines.look(0)
    assert read(store) == [said(number) for number in range(10)]
