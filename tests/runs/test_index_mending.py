"""What the watch mends in the documents with the lines of runs."""

from datetime import UTC, datetime, timedelta

import pytest

from ratchet.contracts import paths
from ratchet.runs.index_document import rebuilt
from ratchet.runs.index_mending import add_lines, index_etags, renew_index, renew_lines
from ratchet.runs.run_index import UNDER_WAY, nights, note_end, note_plan
from ratchet.runs.standstill import RowsHeld, only_removal
from ratchet.store.base import Store
from ratchet.store.lease import new_lease
from ratchet.store.ledger import append
from ratchet.store.memory import MemoryStore
from ratchet.store.process import Process
from ratchet.store.sealed import seal
from tests.runs.recorded import keep
from tests.runs.test_requests import CONTENT, DAY
from tests.runs.test_run_index import promote_and_die, promoted, ran, rejected, store, stored, whole
from tests.store.test_ledger import change

__all__ = ["store"]


def test_an_index_is_renewed_only_where_it_is_not_as_this_release_writes_it(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = paths.run_index("small")
    assert not renew_index(store, "small")  # it has no run
    made = ran(store, "r", *whole())
    for content in (None, b"{}", b"{"):  # lost, of an older form, damaged
        store.delete(key)
        if content is not None:
            store.create(key, content)
        assert [renew_index(store, "small") for _ in range(2)] == [True, False]
    assert stored(store) == rebuilt(store, "small")
    store.delete(key)
    monkeypatch.setattr("ratchet.store.lease.BEAT_S", 0.2)
    with only_removal(store, "small", "ada", wait_s=0.0), pytest.raises(RowsHeld, match="holds the rows of small"):
        renew_index(store, "small")
    assert store.head(key) is None  # a purge deletes it after it has changed the records
    newer = b'{"needs": {"lines": "9.0.0"}}'
    store.delete(key)
    store.create(key, newer)
    assert not renew_index(store, made.spec.name)
    assert store.read(key) == newer
    assert [*index_etags(store)] == ["small"]


def test_an_index_is_renewed_where_a_watch_has_died_with_its_container(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody sees that its process is dead; each look gave up, and the watch sent no heartbeat meanwhile."""
    monkeypatch.setattr("ratchet.store.lease.STALE_S", 0.2)
    ran(store, "r", *whole())
    store.delete(paths.run_index("small"))
    dead = new_lease("removal-1 by the watch", "removal-1").model_copy(
        update={"process": Process(host="another container", pid=1, started=1)}
    )
    store.create(paths.lease("small", "removal", "rows"), seal(dead))
    assert renew_index(store, "small")
    assert stored(store) == rebuilt(store, "small")


def shown(store: Store) -> list[str]:
    """What a page shows of each run."""
    return [line.standing for line in nights(store, "small", follow=False)]


def test_what_a_crash_has_left_out_is_under_way_on_a_page_until_the_watch_has_written_it(store: MemoryStore) -> None:
    runs = [ran(store, f"r{back}", data_date=DAY - timedelta(days=back)) for back in range(3)]
    for made in runs:
        note_plan(store, made)
    keep(store, runs[1], *whole()[:5])  # and each process was killed before it wrote the line
    keep(store, runs[2], *whole("reject"))
    assert shown(store) == ["unfinished"] * 3
    assert renew_lines(store, "small")
    assert shown(store) == ["reject", "promote", "unfinished"]
    assert [run.ended for run in stored(store).runs] == [True, False, False]
    written = store.head(paths.run_index("small"))
    assert renew_lines(store, "small")
    assert store.head(paths.run_index("small")) == written
    keep(store, runs[0], *whole())
    keep(store, runs[1], *whole()[5:])
    renew_lines(store, "small")
    assert shown(store) == ["reject", "promote", "promote"]
    assert not renew_lines(store, "small")
    assert not renew_lines(store, "another")


def test_a_kill_while_a_stage_is_recorded_again_shows_no_verdict_of_before(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rejected(store)
    assert shown(store) == ["reject"]
    promote_and_die(store, made, monkeypatch)
    assert shown(store) == ["unfinished"]
    renew_lines(store, "small")
    assert shown(store) == ["unfinished"]  # its record may be written at this moment
    renew_lines(store, "small")
    assert shown(store) == ["promote"]


def test_a_look_between_the_line_and_the_record_of_a_stage_leaves_no_verdict_of_before(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rejected(store)
    real = store.replace

    def between(key: str, data: bytes, *, expected: str | None) -> bool:
        if key == paths.outcome("small", "r", "evaluate"):
            monkeypatch.setattr(store, "replace", real)
            renew_lines(store, "small")
        return real(key, data, expected=expected)

    monkeypatch.setattr(store, "replace", between)
    promote_and_die(store, made, monkeypatch)
    looks = []
    for _ in range(3):
        looks += shown(store)
        renew_lines(store, "small")
    assert (looks, shown(store)) == (["unfinished", "unfinished", "promote"], ["promote"])


def test_a_run_that_was_killed_long_ago_is_not_looked_at_for_ever(store: MemoryStore) -> None:
    old = datetime.now(UTC) - UNDER_WAY - timedelta(hours=1)
    made = ran(store, "r", created=old)
    note_plan(store, made)
    keep(store, made, *whole()[:5])
    assert [renew_lines(store, "small") for _ in range(4)] == [True, True, False, False]
    assert (shown(store), stored(store).runs[0].ended) == (["promote"], True)
    keep(store, made, *whole()[5:])  # somebody clears it
    note_end(store, made)
    assert stored(store).runs[0].version == "7"


def test_a_line_that_its_run_writes_meanwhile_stays(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    made, other = ran(store, "r"), ran(store, "s", data_date=DAY - timedelta(days=1))
    for one in (made, other):
        note_plan(store, one)
        keep(store, one, *whole("reject")[:5])
    real = store.head

    def between(key: str) -> object:
        monkeypatch.setattr(store, "head", real)
        keep(store, made, *whole("reject")[5:])
        note_end(store, made)
        return real(key)

    monkeypatch.setattr(store, "head", between)
    assert renew_lines(store, "small")
    assert [(run.standing, run.ended) for run in stored(store).runs] == [("reject", False), ("reject", True)]


def test_a_document_learns_what_its_ledger_says_by_now(store: MemoryStore) -> None:
    made = ran(store, "r", *whole())
    promoted(store, ["6", "7"])
    note_end(store, made)
    append(store, change("6", 20, model="small", model_digest="6" * 64, action="rollback"), after=2)
    assert stored(store).ledgers["small"].live == CONTENT
    assert add_lines(store, "small", set(), 8) == 0
    assert (stored(store).ledgers["small"].number, stored(store).ledgers["small"].live) == (3, "6" * 64)
    written = store.head(paths.run_index("small"))
    add_lines(store, "small", set(), 8)
    assert store.head(paths.run_index("small")) == written
