"""The chain of a backfill run: which run it goes on from."""

import uuid
from datetime import UTC, date, datetime, timedelta

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.request import Promotion, RunKind, RunPlan
from ratchet.production.shadow import keep_winner
from ratchet.runs.chain import GAP, chain_of
from ratchet.runs.history import plan_of
from ratchet.runs.run_index import note_plan
from ratchet.store.memory import MemoryStore
from tests.runs.recorded import keep_plan
from tests.runs.test_requests import DAY, OUTCOMES, plan
from tests.turned_times import turn_round

NOW = datetime(2026, 12, 1, tzinfo=UTC)
NEXT = DAY + timedelta(days=1)


def before(
    day: date = DAY, *, kind: RunKind = "backfill", ago: timedelta = timedelta(minutes=5), changed: str = ""
) -> MemoryStore:
    """A store with one run of a date."""
    store = MemoryStore(uuid.uuid4().hex)
    overrides = {"train.epochs": changed} if changed else {}
    made = plan(run_id="before", data_date=day, kind=kind, chain="c1")
    keep_plan(store, made.model_copy(update={"created": NOW - ago, "overrides": overrides}))
    return store


def chain(store: MemoryStore) -> str:
    return chain_of(store, "small", "small", NEXT, overrides={}, now=NOW)


def test_a_run_goes_on_with_the_chain_of_the_backfill_run_before_it() -> None:
    assert chain(before()) == "c1"


@pytest.mark.parametrize(
    "store",
    [
        before(NEXT + timedelta(days=1)),
        before(kind="scheduled"),
        before(ago=GAP + timedelta(seconds=1)),
        before(changed="9"),
        MemoryStore("no-run"),
    ],
    ids=["a later date", "no backfill", "long ago", "other settings", "no run"],
)
def test_after_any_other_run_a_new_chain_begins(store: MemoryStore) -> None:
    assert chain(store).startswith(f"backfill-{NEXT}-")


def test_in_a_copy_of_the_store_the_run_before_is_the_one_that_was_planned_last() -> None:
    """Whether the lines of the runs are there or not."""
    now, store = datetime.now(UTC), MemoryStore(uuid.uuid4().hex)
    for number, name in enumerate(("c1", "c2")):
        created = now - timedelta(minutes=5 - number)
        note_plan(store, keep_plan(store, plan(run_id=name, kind="backfill", chain=name, created=created)))
    turn_round(store)
    for _ in range(2):
        assert chain_of(store, "small", "small", NEXT, overrides={}, now=now) == "c2"
        store.delete(paths.run_index("small"))


def dates(store: MemoryStore, *chains: str, changed: str = "", won: int | None = None) -> list[RunPlan]:
    """Backfill runs of one date after the other before NEXT, each of a chain. won: which of them wins."""
    made = []
    for number, name in enumerate(chains):
        before = plan(
            run_id=f"run{number}",
            data_date=NEXT - timedelta(days=len(chains) - number),
            kind="backfill",
            chain=name,
            promotion=Promotion(mode="never"),
            created=NOW - timedelta(minutes=len(chains) - number),
        ).model_copy(update={"overrides": {"train.epochs": changed} if changed else {}})
        note_plan(store, keep_plan(store, before))
        if number == won:
            assert keep_winner(store, before, OUTCOMES)
        made.append(before)
    return made


def damage(store: MemoryStore, made: RunPlan) -> None:
    key = paths.plan("small", made.run_id)
    entry = store.head(key)
    assert entry
    assert store.replace(key, store.read(key)[:-100], expected=entry.etag)
    with pytest.raises(CorruptArtifact):
        plan_of(store, "small", made.run_id)


@pytest.mark.parametrize("won", [None, 0, 1])
def test_a_damaged_plan_ends_no_later_date_and_its_chain_goes_on(
    won: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore(uuid.uuid4().hex)
    damage(store, dates(store, "c1", "c1", won=won)[-1])
    assert chain(store) == "c1"
    (line,) = caplog.messages
    assert line.startswith(f"run run1 of {DAY}, a date of a backfill: its plan cannot be read; ")
    assert f"{paths.plan('small', 'run1')} is damaged" in line
    assert "restore it from a backup" in line


def test_the_winner_of_a_date_whose_plan_is_damaged_is_met_by_the_next_date() -> None:
    """Although it is the first of its chain, and the one before it is of another backfill."""
    store = MemoryStore(uuid.uuid4().hex)
    damage(store, dates(store, "other", "c1", won=1)[-1])
    assert chain(store) == "c1"


def test_a_damaged_plan_of_other_settings_begins_a_new_chain() -> None:
    """The winners of its chain say the settings."""
    store = MemoryStore(uuid.uuid4().hex)
    damage(store, dates(store, "c1", changed="9", won=0)[-1])
    assert chain(store).startswith(f"backfill-{NEXT}-")
