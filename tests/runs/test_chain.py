"""The chain of a backfill run: which run it goes on from."""

import uuid
from datetime import UTC, date, datetime, timedelta

import pytest

from ratchet.contracts import paths
from ratchet.contracts.request import RunKind
from ratchet.runs.chain import GAP, chain_of
from ratchet.runs.run_index import note_plan
from ratchet.store.memory import MemoryStore
from tests.runs.recorded import keep_plan
from tests.runs.test_requests import DAY, plan
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
    return chain_of(store, "small", NEXT, overrides={}, now=NOW)


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
        assert chain_of(store, "small", NEXT, overrides={}, now=now) == "c2"
        store.delete(paths.run_index("small"))
