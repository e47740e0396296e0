"""The runs of a pipeline by date, from what is recorded of them."""

import uuid
from datetime import timedelta
from typing import Any

import pytest

from ratchet.contracts.registration import Registration
from ratchet.contracts.request import Outcome, RunPlan, SourceDay, SourceFile
from ratchet.contracts.stages import REGULAR
from ratchet.runs.history import days_of, first_judged, is_local, newest, plan_of, runs_of
from ratchet.store.ledger import append
from ratchet.store.memory import MemoryStore
from tests.runs.recorded import keep, keep_plan
from tests.runs.test_requests import CONTENT, DAY, JUDGED, OUTCOMES, outcome, plan
from tests.store.test_ledger import change

BEFORE = DAY - timedelta(days=1)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(uuid.uuid4().hex)


def ran(store: MemoryStore, run_id: str, *ended: Outcome, **changes: Any) -> RunPlan:
    made = keep_plan(store, plan(run_id=run_id, **changes))
    keep(store, made, *ended)
    return made


def saw(identity: str) -> tuple[SourceDay, ...]:
    return (SourceDay(day=DAY, files=(SourceFile(key="a", bytes=1, identity=identity),)),)


def registered(*, promoted: bool) -> Outcome:
    summary = Registration(model="small", version="7", mlflow_run_id="r", promoted=promoted)
    return outcome("register", summary=summary.model_dump(mode="json"))


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


def test_the_newest_run_of_a_date_or_of_a_kind_is_its_line(store: MemoryStore) -> None:
    assert newest(store, "small", DAY) is None
    ran(store, "first", kind="backfill")
    ran(store, "second", kind="manual")
    lines = [newest(store, "small", DAY, kind) for kind in (None, "backfill", "scheduled")]
    assert [line and line.run_id for line in lines] == ["second", "first", None]


@pytest.mark.parametrize(
    ("ended", "standing", "would_promote", "promoted", "version", "cause"),
    [
        ((), "unfinished", False, False, "", ""),
        ((OUTCOMES["evaluate"],), "promote", True, False, "", "better by 2 %"),
        (
            (OUTCOMES["train"], OUTCOMES["evaluate"], registered(promoted=True)),
            "promote",
            True,
            True,
            "7",
            "better by 2 %",
        ),
        (
            (OUTCOMES["train"], OUTCOMES["evaluate"], registered(promoted=True)),
            "promote",
            True,
            False,
            "7",
            "better by 2 %",
        ),
        ((OUTCOMES["evaluate"], registered(promoted=False)), "promote", True, False, "7", "better by 2 %"),
        ((outcome("evaluate", summary={**JUDGED, "verdict": "reject"}),), "reject", False, False, "", "better by 2 %"),
        (
            (Outcome(stage="ingest", state="failed", because="no rows"),),
            "failed",
            False,
            False,
            "",
            "ingest: no rows",
        ),
        (
            (OUTCOMES["evaluate"], Outcome(stage="register", state="failed", because="no MLflow")),
            "failed",
            True,
            False,
            "",
            "register: no MLflow",
        ),
    ],
)
def test_a_line_says_how_its_run_ended(
    store: MemoryStore,
    ended: tuple[Outcome, ...],
    standing: str,
    would_promote: bool,
    promoted: bool,
    version: str,
    cause: str,
) -> None:
    ran(store, "r", *ended)
    if promoted:
        append(store, change("7", 20, model="small", model_digest=CONTENT), after=0)
    line = newest(store, "small", DAY)
    assert line is not None
    assert line.live is promoted
    assert (line.day, line.kind, line.standing, line.cause) == (DAY, "local", standing, cause)
    assert (line.would_promote, line.promoted, line.version) == (would_promote, promoted, version)
    assert (line.gain is None) == ("evaluate" not in {one.stage for one in ended})


@pytest.mark.parametrize(("built", "cached"), [((), True), (("report",), True), (("train",), False)])
def test_a_run_is_cached_if_every_stage_but_the_report_was(
    store: MemoryStore,
    built: tuple[str, ...],
    cached: bool,
) -> None:
    results = {**OUTCOMES, "register": registered(promoted=False)}
    ran(store, "r", *(results[stage].model_copy(update={"cached": stage not in built}) for stage in REGULAR))
    line = newest(store, "small", DAY)
    assert line is not None
    assert line.cached is cached
