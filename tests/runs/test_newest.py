"""The newest of many documents: right in a copy of a store too, and for few requests where the times are true."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from ratchet.runs.newest import newest_first, write_mark
from ratchet.store.base import Entry
from ratchet.store.memory import MemoryStore

NOW = datetime.now(UTC)


@pytest.mark.parametrize(("copied", "read"), [(False, 1), (True, 40)])
def test_only_what_may_be_the_newest_is_read(copied: bool, read: int) -> None:
    hours = {f"{number:02}": NOW - timedelta(hours=number) for number in range(40)}
    files = [
        Entry(key, 0, "", int((NOW + timedelta(hours=int(key)) if copied else when).timestamp() * 1e9))
        for key, when in hours.items()
    ]
    asked: list[str] = []

    def said(file: Entry) -> datetime | None:
        asked.append(file.key)
        return hours[file.key] if file.key != "03" else None

    found = newest_first(files, said, lambda moment: moment)
    assert next(found) == NOW
    assert len(asked) == read
    assert list(found) == [when for key, when in hours.items() if key not in {"00", "03"}]


def test_what_was_written_within_a_second_is_compared_by_what_it_says() -> None:
    times = {"a": NOW + timedelta(milliseconds=800), "b": NOW + timedelta(milliseconds=200)}
    second = int(NOW.timestamp()) * 10**9
    files = [Entry(key, 0, "", second) for key in times]
    assert list(newest_first(files, lambda file: times[file.key], lambda moment: moment)) == [times["a"], times["b"]]


def test_what_is_known_is_not_read_and_has_its_place() -> None:
    known = [NOW - timedelta(hours=2), NOW]
    old = Entry("old", 0, "", int((NOW - timedelta(hours=1)).timestamp() * 1e9))
    found = newest_first([old], lambda _: NOW - timedelta(hours=3), lambda moment: moment, known)
    assert list(found) == [NOW, NOW - timedelta(hours=2), NOW - timedelta(hours=3)]
    assert list(newest_first([], lambda _: NOW, lambda moment: moment)) == []


def test_a_mark_of_a_try_before_is_not_older_than_what_the_next_one_writes() -> None:
    store = MemoryStore(uuid.uuid4().hex)
    write_mark(store, "marks/a")
    before = store.head("marks/a")
    write_mark(store, "marks/a")
    after = store.head("marks/a")
    assert before is not None
    assert after is not None
    assert after.modified_ns > before.modified_ns
