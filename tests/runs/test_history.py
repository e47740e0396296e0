"""The runs of a pipeline by date, from what is recorded of them."""

import uuid
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import OtherRelease
from ratchet.contracts.request import Outcome, RunPlan, SourceDay, SourceFile
from ratchet.contracts.summaries import judgement
from ratchet.runs.compared import is_doubted
from ratchet.runs.history import days_of, first_judged, is_local, plan_of, plan_to_follow, rebuild_plan, runs_of
from ratchet.runs.run_index import nights
from ratchet.runs.unmeasured import unmeasured_nights
from ratchet.store.memory import MemoryStore
from tests.runs.recorded import keep, keep_plan
from tests.runs.test_requests import DAY, JUDGED, OUTCOMES, outcome, plan
from tests.runs.test_unmeasured import CHAMPION

BEFORE = DAY - timedelta(days=1)
OVER = datetime.combine(DAY + timedelta(days=1), time(2), UTC)
"""A moment after the end of the day, when its own night is."""


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(uuid.uuid4().hex)


def ran(store: MemoryStore, run_id: str, *ended: Outcome, **changes: Any) -> RunPlan:
    made = keep_plan(store, plan(run_id=run_id, **changes))
    keep(store, made, *ended)
    return made


def saw(identity: str) -> tuple[SourceDay, ...]:
    return (SourceDay(day=DAY, files=(SourceFile(key="a", bytes=1, identity=identity),)),)


def test_runs_are_listed_by_date_oldest_first(store: MemoryStore) -> None:
    ran(store, "b")
    ran(store, "a")
    ran(store, "c", data_date=BEFORE)
    assert days_of(store, "small") == [BEFORE, DAY]
    assert runs_of(store, "small", DAY) == ["b", "a"]
    assert days_of(store, "unknown") == []


def test_the_plan_of_an_unknown_run_is_none_and_such_a_run_is_not_local(store: MemoryStore) -> None:
    made = ran(store, "local")
    ran(store, "scheduled", kind="scheduled")
    assert plan_of(store, "small", "local") == made
    assert plan_of(store, "small", "unknown") is None
    assert [is_local(store, "small", run) for run in ("local", "scheduled", "unknown")] == [True, False, False]


def test_the_first_run_of_a_date_that_came_to_a_verdict_is_the_one_to_repeat(store: MemoryStore) -> None:
    """One that was refused because of a missing day is not: the day may have been delivered since."""
    ran(store, "refused", OUTCOMES["validate"], Outcome(stage="features", state="failed"), source=saw("1"))
    assert first_judged(store, "small", DAY) is None
    first = ran(store, "first", OUTCOMES["evaluate"], source=saw("2"))
    ran(store, "second", OUTCOMES["evaluate"], source=saw("3"))
    assert first_judged(store, "small", DAY) == first
    assert first_judged(store, "small", BEFORE) is None


def test_the_runs_of_a_date_keep_their_order_in_a_copy_of_the_store(store: MemoryStore) -> None:
    """Its files have the times of the copy, in the order of their names."""
    ran(store, "a", created=OVER + timedelta(seconds=1))
    ran(store, "b", created=OVER)
    assert runs_of(store, "small", DAY) == ["b", "a"]


@pytest.mark.parametrize("damaged", ["plan", "outcome"])
def test_a_damaged_record_of_a_run_holds_up_no_other_run_of_the_date_and_no_later_night(
    store: MemoryStore, damaged: str
) -> None:
    broken, other, later = (
        ran(store, name, OUTCOMES["evaluate"], data_date=day)
        for name, day in (("a", BEFORE), ("b", BEFORE), ("c", DAY))
    )
    keys = {"plan": paths.plan("small", "a"), "outcome": paths.outcome("small", "a", "evaluate")}
    there = store.head(keys[damaged])
    assert there is not None
    assert store.replace(keys[damaged], b'{"cut', expected=there.etag)
    assert sorted(runs_of(store, "small", BEFORE)) == [broken.run_id, other.run_id]
    assert is_doubted(store, other, []) == (damaged == "outcome")
    assert unmeasured_nights(store, later, CHAMPION) == 0


def test_a_verdict_of_another_release_is_one_line_and_holds_up_no_night(store: MemoryStore) -> None:
    newer = outcome("evaluate", summary={**JUDGED, "verdict": "postpone"})
    made, later = ran(store, "a", newer, data_date=BEFORE), ran(store, "b")
    assert newer.result is not None
    with pytest.raises(OtherRelease, match=r"the summary of evaluate by attempt a cannot be read by Ratchet .*verdict"):
        judgement(newer.result)
    line = nights(store, "small")[0]
    assert (line.run_id, line.standing) == (made.run_id, "failed")
    assert "another release wrote it" in line.cause
    assert unmeasured_nights(store, later, CHAMPION) == 0


def test_a_run_of_a_part_of_the_day_is_not_what_its_own_night_saw(store: MemoryStore) -> None:
    noon = ran(store, "noon", OUTCOMES["evaluate"], kind="manual", created=OVER - timedelta(hours=14))
    assert first_judged(store, "small", DAY) is None
    by_hand = ran(store, "by-hand", OUTCOMES["evaluate"], kind="manual", created=OVER)
    assert first_judged(store, "small", DAY) == by_hand
    night = ran(store, "night", OUTCOMES["evaluate"], kind="scheduled", created=OVER + timedelta(hours=1))
    assert first_judged(store, "small", DAY) == night
    assert noon.data_date == DAY


def test_a_rebuild_has_a_plan_for_its_containers_and_is_no_run(store: MemoryStore) -> None:
    made = plan(run_id="reproduction-1", kind="reproduction")
    assert store.create(rebuild_plan(made.spec.name, made.run_id), made.model_dump_json(by_alias=True).encode())
    ran(store, "r1")
    assert plan_to_follow(store, made.spec.name, made.run_id) == made
    assert plan_of(store, made.spec.name, made.run_id) is None
    assert plan_to_follow(store, made.spec.name, "r1") == plan_of(store, made.spec.name, "r1")
    assert plan_to_follow(store, made.spec.name, "unknown") is None
    assert runs_of(store, made.spec.name, DAY) == ["r1"]
