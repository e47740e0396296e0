"""The ledger of champions."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from typing import Any

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact, Unavailable
from ratchet.store.base import Store
from ratchet.store.ledger import Change, LedgerConflict, Record, append, champion, records
from ratchet.store.memory import MemoryStore
from ratchet.store.opening import open_store


@pytest.fixture
def store(store_uri: str) -> Store:
    return open_store(store_uri)


def change(version: str, day: int, **more: Any) -> Change:
    values = {
        "model": "ranker",
        "action": "promote",
        "version": version,
        "fingerprint": "f" * 64,
        "model_digest": "d" * 64,
        "manifests": {"train": "published/p/train/f/manifest.json"},
        "data_date": date(2026, 11, day),
        "window_start": date(2026, 10, day),
        "pipeline": "p",
        "run_id": f"run-{version}",
        "reason": "better",
        "baseline": None,
        "recorded": datetime(2026, 11, 20, 2, tzinfo=UTC),
    }
    return Change(**{**values, **more})


def filled(store: Store, *days: int) -> None:
    for number, day in enumerate(days):
        append(store, change(str(number + 1), day), after=number)


def test_an_empty_ledger_has_no_champion(store: Store) -> None:
    assert records(store, "ranker") == ()
    assert champion(store, "ranker") is None


def test_records_come_back_in_order_and_the_last_is_champion(store: Store) -> None:
    made = [append(store, change(str(n + 1), 10 + n), after=n) for n in range(3)]
    assert records(store, "ranker") == tuple(made)
    assert [record.number for record in made] == [1, 2, 3]
    assert champion(store, "ranker") == made[-1]
    assert champion(store, "another") is None


def test_the_champion_as_of_a_date_is_who_was_in_office_then(store: Store) -> None:
    filled(store, 10, 12, 11)

    def version(day: int) -> str | None:
        record = champion(store, "ranker", before=date(2026, 11, day))
        return record.version if record else None

    assert [version(day) for day in (10, 11, 12, 13)] == [None, "1", "1", "3"]


def test_the_second_writer_learns_the_winner(store: Store) -> None:
    filled(store, 10)
    won = append(store, change("2", 11), after=1)
    with pytest.raises(LedgerConflict, match=r"run run-2 was first.*version 2 as number 2") as caught:
        append(store, change("3", 11), after=1)
    assert caught.value.winner == won
    assert champion(store, "ranker") == won


def test_of_many_promotions_at_once_one_wins(store: Store) -> None:
    def promote(version: str) -> Record | None:
        try:
            return append(store, change(version, 10), after=0)
        except LedgerConflict:
            return None

    with ThreadPoolExecutor(6) as pool:
        won = [record for record in pool.map(promote, "abcdef") if record]
    assert won == [champion(store, "ranker")]


def test_the_ledger_gets_no_gap(store: Store) -> None:
    filled(store, 10)
    with pytest.raises(CorruptArtifact, match=r"00000005.json is missing"):
        append(store, change("2", 11), after=5)
    assert len(records(store, "ranker")) == 1


def test_a_missing_record_is_reported(store: Store) -> None:
    filled(store, 10, 11, 12)
    store.delete(paths.record_below(paths.ledger("ranker"), 2))
    for read in (lambda: records(store, "ranker"), lambda: champion(store, "ranker")):
        with pytest.raises(CorruptArtifact, match=r"00000002.json is missing"):
            read()


@pytest.mark.parametrize("how", ["cut", "flipped", "empty"])
def test_a_damaged_last_record_is_reported_and_never_passed_over(store: Store, how: str) -> None:
    filled(store, 10, 11)
    key = paths.record_below(paths.ledger("ranker"), 2)
    whole = store.read(key)
    damaged = {"cut": whole[:-20], "flipped": whole.replace(b"better", b"bettes"), "empty": b""}[how]
    store.delete(key)
    store.create(key, damaged)
    for use in (
        lambda: champion(store, "ranker"),
        lambda: records(store, "ranker"),
        lambda: append(store, change("3", 12), after=2),
        lambda: append(store, change("3", 12), after=1),
    ):
        with pytest.raises(CorruptArtifact, match=r"00000002.json is damaged.*promotes nothing"):
            use()


def test_a_record_in_anothers_place_is_refused(store: Store) -> None:
    filled(store, 10)
    store.create(
        paths.record_below(paths.ledger("ranker"), 2), store.read(paths.record_below(paths.ledger("ranker"), 1))
    )
    with pytest.raises(CorruptArtifact, match=r"00000002.json contains record 1 of ranker"):
        champion(store, "ranker")


class _HeadDoesNotAnswer(MemoryStore):
    """The head can be read, and not be written."""

    down = False

    def replace(self, key: str, data: bytes, *, expected: str | None) -> bool:
        if self.down and key == paths.head_below(paths.ledger("ranker")):
            raise Unavailable("the store does not answer")
        return super().replace(key, data, expected=expected)


def test_a_record_that_is_written_is_no_error_if_the_head_cannot_follow() -> None:
    store = _HeadDoesNotAnswer("head-does-not-answer")
    filled(store, 10)
    store.down = True
    assert append(store, change("2", 11), after=1).number == 2
    store.down = False
    assert append(store, change("3", 12), after=2).number == 3
    assert [record.version for record in records(store, "ranker")] == ["1", "2", "3"]
