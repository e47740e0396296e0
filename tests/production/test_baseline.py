"""What a run is measured against, and whether it may move production."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from ratchet.contracts.champion import Champion
from ratchet.contracts.fingerprint import digest
from ratchet.production.baseline import as_champion, baseline, drift_reference, promotion
from ratchet.store.base import Store
from ratchet.store.ledger import Change, append, records
from ratchet.store.ledger_record import Action
from ratchet.store.memory import MemoryStore

MODEL = "ranker"


@pytest.fixture
def store(request: pytest.FixtureRequest) -> MemoryStore:
    return MemoryStore(f"baseline-{request.node.nodeid}")


def day(number: int) -> date:
    return date(2026, 11, number)


def promote(
    store: Store,
    name: str,
    data_date: date,
    *,
    after: int,
    beaten: int | None,
    model: str = MODEL,
    refit_of: str | None = None,
    by_hand: bool = False,
    action: Action = "promote",
    recorded: datetime | None = None,
) -> None:
    change = Change(
        model=model,
        action=action,
        version=str(after + 1),
        fingerprint=digest(b"f"),
        model_digest=digest(name.encode()),
        manifests={"train": name},
        data_date=data_date,
        window_start=data_date,
        pipeline="p",
        run_id="r",
        reason="better",
        baseline=beaten,
        recorded=recorded or datetime.now(UTC),
        by_hand=by_hand,
        refit_of=digest(refit_of.encode()) if refit_of else None,
    )
    append(store, change, after=after)


def met(store: MemoryStore, candidate: str, data_date: date, *, may_promote: bool = True) -> str | None:
    found = baseline(store, MODEL, data_date=data_date, candidate=digest(candidate.encode()), may_promote=may_promote)
    return found.manifests["train"] if found else None


def test_the_first_candidate_meets_nobody(store: MemoryStore) -> None:
    assert met(store, "a", day(1)) is None


def test_a_night_meets_the_live_champion(store: MemoryStore) -> None:
    promote(store, "a", day(1), after=0, beaten=None)
    promote(store, "b", day(2), after=1, beaten=1)
    assert met(store, "c", day(3)) == "b"


def test_a_rerun_meets_whom_it_met_the_first_time(store: MemoryStore) -> None:
    promote(store, "a", day(1), after=0, beaten=None)
    promote(store, "b", day(2), after=1, beaten=1)
    assert met(store, "b", day(2)) == "a"
    promote(store, "b", day(2), after=2, beaten=2)
    assert met(store, "b", day(2)) == "a"


def test_a_rerun_of_the_first_night_meets_nobody_again(store: MemoryStore) -> None:
    promote(store, "a", day(1), after=0, beaten=None)
    assert met(store, "a", day(1)) is None


def test_another_candidate_for_the_same_date_has_to_beat_the_one_that_is_live(store: MemoryStore) -> None:
    promote(store, "a", day(1), after=0, beaten=None)
    assert met(store, "other", day(1)) == "a"


def test_a_backfill_meets_the_champion_of_its_date(store: MemoryStore) -> None:
    promote(store, "a", day(1), after=0, beaten=None)
    promote(store, "b", day(5), after=1, beaten=1)
    assert met(store, "x", day(3), may_promote=False) == "a"
    assert met(store, "x", day(1), may_promote=False) is None
    reference = drift_reference(store, MODEL, day(9))
    assert reference
    assert reference.digest == digest(b"b")


@pytest.mark.parametrize(
    ("kind", "configured", "asked", "mode"),
    [
        ("scheduled", "auto", None, "auto"),
        ("manual", "approve", None, "approve"),
        ("scheduled", "never", None, "never"),
        ("local", "approve", None, "never"),
        ("backfill", "auto", None, "never"),
        ("backfill", "auto", "auto", "auto"),
        ("manual", "auto", "never", "never"),
    ],
)
def test_production_moves_only_where_the_pipeline_or_a_person_says_so(
    store: MemoryStore, kind: str, configured: str, asked: str | None, mode: str
) -> None:
    found = promotion(store, MODEL, data_date=day(3), kind=kind, configured=configured, asked=asked)  # type: ignore[arg-type]
    assert found.mode == mode
    assert bool(found.reason) == (mode == "never")


def test_an_older_date_than_production_s_does_not_move_it_unless_asked(store: MemoryStore) -> None:
    promote(store, "b", day(5), after=0, beaten=None)
    older = promotion(store, MODEL, data_date=day(4), kind="manual", configured="auto", asked=None)
    assert older.mode == "never"
    assert "2026-11-05" in older.reason
    assert promotion(store, MODEL, data_date=day(4), kind="manual", configured="auto", asked="auto").mode == "auto"
    assert promotion(store, MODEL, data_date=day(5), kind="manual", configured="auto", asked=None).mode == "auto"


def test_a_past_date_stays_one_after_production_went_back(store: MemoryStore) -> None:
    promote(store, "a", day(3), after=0, beaten=None)
    promote(store, "b", day(5), after=1, beaten=1)
    promote(store, "a", day(3), after=2, beaten=None, action="rollback", by_hand=True)
    older = promotion(store, MODEL, data_date=day(4), kind="manual", configured="auto", asked=None)
    assert (older.mode, "2026-11-05" in older.reason) == ("never", True)
    assert promotion(store, MODEL, data_date=day(5), kind="manual", configured="auto", asked=None).mode == "auto"


def test_a_rerun_of_a_night_that_shipped_a_refit_meets_whom_it_met_the_first_time(store: MemoryStore) -> None:
    promote(store, "a", day(1), after=0, beaten=None)
    promote(store, "b again", day(2), after=1, beaten=1, refit_of="b")
    assert met(store, "b", day(2)) == "a"
    assert met(store, "c", day(3)) == "b again"


def test_a_champion_says_on_which_day_a_person_put_it_into_production(store: MemoryStore) -> None:
    evening = datetime(2026, 11, 20, 23, 30, tzinfo=timezone(timedelta(hours=-2)))  # the 21st in UTC
    promote(store, "a", day(1), after=0, beaten=None, recorded=evening)
    assert as_champion(records(store, MODEL)[-1]).chosen is None
    promote(store, "b", day(2), after=1, beaten=1, recorded=evening, by_hand=True)
    chosen = as_champion(records(store, MODEL)[-1])
    assert (chosen.chosen, chosen.data_date) == (day(21), day(2))


def test_a_champion_in_a_document_of_before_is_still_read(store: MemoryStore) -> None:
    promote(store, "a", day(1), after=0, beaten=None, by_hand=True)
    old = as_champion(records(store, MODEL)[-1]).model_dump(mode="json", exclude={"chosen", "pipeline"})
    read = Champion.model_validate(old)
    assert read.chosen is None
    assert not read.is_foreign("any")
