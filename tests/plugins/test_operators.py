"""A stage's task: what it computes, what it keeps for its next try, and what it leaves behind when it is killed."""

import threading
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException, AirflowSkipException

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, DataRejected, NoAnswer, Preempted, Unavailable
from ratchet.contracts.loading import load
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.stages import StageSettings
from ratchet.runners.devices import TooFewDevices
from ratchet.runners.runner import Engine
from ratchet.runs import taking
from ratchet.runs.known_hosts import mark_host
from ratchet.runs.outcomes import outcomes
from ratchet.runs.planning import make_plan
from ratchet.runs.taking import Elsewhere, place_of
from ratchet.runs.work import Work, settle
from ratchet.samples import clicks
from ratchet.store import lease
from ratchet.store.base import Store
from ratchet.store.lease import Hold, Waiter, new_lease
from ratchet.store.opening import open_store
from ratchet_airflow import operators
from ratchet_airflow.operators import StageOperator
from ratchet_airflow.outages import ON_HOST, WAITED, goes_on
from ratchet_airflow.waits import RUN
from tests.runs.recorded import keep
from tests.runs.test_requests import JUDGED, outcome
from tests.waiting import until

FOLDER = Path(__file__).resolve().parents[2] / "dags" / "pipelines" / "search-ranking"
DAY = date(2026, 3, 20)


class States:
    """What Airflow keeps for a task over its tries."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        return self.kept.get(key)

    def set(self, key: str, value: Any) -> None:
        self.kept[key] = value

    def delete(self, key: str) -> None:
        self.kept.pop(key, None)


def context(states: States | None, *, try_number: int = 1, max_tries: int = 2) -> Mapping[str, Any]:
    """What a task sees of its run."""
    task = SimpleNamespace(try_number=try_number, max_tries=max_tries, id="0123456789abcdef", stats_tags={})
    return {"run_id": "r", "ti": task, "task_state_store": states}


def plan_in(folder: Path, monkeypatch: pytest.MonkeyPatch, *, days: int) -> RunPlan:
    """A run that needs three days, of which there are `days`, in the store that the environment names."""
    monkeypatch.setenv("RATCHET_DATA", str(folder))
    monkeypatch.setenv("RATCHET_STORE", str(folder / "store"))
    monkeypatch.setenv("RATCHET_RUNNER", "process")
    for _ in clicks.write(folder, days=days, rows_per_day=50, end=DAY, seed=0):
        pass
    spec = load(FOLDER, {"source.window_days": 3})
    return make_plan(
        folder=FOLDER, spec=spec, data_date=DAY, run_id="r", kind="manual", store_uri=str(folder / "store")
    )


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPlan:
    return plan_in(tmp_path, monkeypatch, days=3)


@pytest.fixture
def store(plan: RunPlan) -> Store:
    return open_store(plan.store)


def task(stage: Any = "ingest") -> StageOperator:
    return StageOperator(pipeline="search-ranking", stage=stage, retries=2)


def recorded(store: Store, stage: Any = "ingest") -> Outcome:
    return outcomes(store, "search-ranking", "r")[stage]


def held_elsewhere(plan: RunPlan, store: Store) -> Hold:
    """The lease of the run's ingest, in the hands of another run."""
    work = settle(store, plan, "ingest", "other", on_event=print)
    assert isinstance(work, Work)
    hold = Waiter(store, work.lease, new_lease("elsewhere", "other")).take()
    assert hold is not None
    return hold


def test_a_container_on_another_host_is_waited_for_and_after_a_clear_it_is_still_to_be_ended(
    plan: RunPlan, store: Store
) -> None:
    """A task keeps no name of an attempt that began nothing, unless an earlier one was kept: then it follows."""
    work = settle(store, plan, "ingest", "other", on_event=print)
    assert isinstance(work, Work)
    hold = Waiter(store, work.lease, new_lease(plan.run_id, "other"), engine="e").take()
    assert hold is not None
    hold.point_at("other", datetime.now(UTC), place=place_of(work, Engine("e", "gpu-2")))
    hold.release(lives=True)
    cleared, again = States(), States()
    again.set("ratchet_attempt", "other")
    for states, retries in ((cleared, 2), (again, 0)):  # it is no retry
        waits = task()
        waits.handling = StageSettings(retries=retries)
        with pytest.raises(AirflowRescheduleException):
            waits.execute(context(states))
    assert "ratchet_attempt" not in cleared.kept
    assert "ratchet_attempt" in again.kept
    with pytest.raises(Elsewhere, match="may still run on gpu-2"):
        task().execute(context(None))


def test_what_goes_away_after_something_else_came_back_is_said_too(
    plan: RunPlan, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors, said, states = list[Unavailable](), list[str](), States()

    def compute(*_: object, **__: object) -> None:
        raise errors[-1]

    monkeypatch.setattr("ratchet.runs.attempt.Attempt.compute", compute)
    waits = task()
    waits.on_outage = lambda *given: said.append(str(given[1]).partition(";")[0])
    bucket = "bucket shop at http://s3: does not answer: no connection to http://s3/shop"
    for cause in (f"{bucket}/a/1", f"{bucket}/b/22", "the engine does not answer", "the engine does not answer"):
        errors.append(NoAnswer(cause))
        with pytest.raises(AirflowRescheduleException):
            waits.execute(context(states))
    assert said == [f"{bucket}/a/1", "the engine does not answer"]


def test_a_stage_that_needs_more_devices_than_this_host_has_waits_for_a_larger_one(
    plan: RunPlan, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compute(*_: object, **__: object) -> None:
        raise TooFewDevices("ingest needs 2 GPUs, and this host has none", remedy="", wanted=2)

    monkeypatch.setattr("ratchet.runs.attempt.Attempt.compute", compute)
    monkeypatch.setenv("RATCHET_INSTALLATION", "here")
    with pytest.raises(TooFewDevices):
        task().execute(context(States()))
    mark_host(store, "here", Engine("other/1", "other"), 2)
    states, said, small = States(), list[tuple[float, str]](), task()
    small.handling = StageSettings(retries=0)  # nothing is away, so this is no retry
    states.set(WAITED, [2, 1e9])  # nor has an outage before used up its time
    small.on_outage = lambda *given: said.append((states.kept.get(ON_HOST, [2, 0.0])[1], given[2]))
    for _ in range(14):
        with pytest.raises(AirflowRescheduleException):
            small.execute(context(states))
    assert states.kept[ON_HOST] == [2, 780.0]  # a look each minute
    assert said == [
        (600.0, "the same try looks again each minute, for 4h in all")
    ]  # the first looks may be on the wrong host; after some it may not be there


def test_another_run_that_computes_the_same_for_long_is_waited_for_without_a_worker_within_the_time_of_the_stage(
    plan: RunPlan, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_DEFER_SECONDS", "0.1")
    monkeypatch.setattr(lease, "STALE_S", 0.0)
    monkeypatch.setattr(taking, "_LATER_S", 0.1)
    hold, states = held_elsewhere(plan, store), States()
    with pytest.raises(AirflowRescheduleException):
        task().execute(context(states))
    assert set(states.kept) == {"ratchet_max_tries", RUN}  # no name of an attempt that began nothing
    assert states.kept[RUN][:3] == [2, 0.0, 20.0]
    assert "ingest" not in outcomes(store, "search-ranking", "r")
    states.set(RUN, [2, 1e9, *states.kept[RUN][2:]])
    long = StageOperator(pipeline="search-ranking", stage="ingest", retries=2)
    states.set(WAITED, [2, long.handling.outage_s])
    with pytest.raises(Unavailable, match="for another run that computes the same"):
        long.execute(context(states))
    hold.release()
    states.delete(WAITED)
    assert task().execute(context(states)).startswith(plan.store)


def test_a_task_computes_its_stage_and_its_value_is_the_manifest_s_address(plan: RunPlan, store: Store) -> None:
    operator, states = task(), States()
    value = operator.execute(context(states))
    ended = recorded(store)
    assert value == f"{plan.store}/{ended.manifest}"
    assert (ended.state, ended.cached, operator.result) == ("done", False, ended.result)
    assert ended.result is not None
    assert states.kept["ratchet_attempt"] == ended.result.attempt
    assert ended.result.attempt.startswith("try1-456789abcdef-")


def test_a_result_that_is_published_is_found_and_no_name_is_kept(plan: RunPlan, store: Store) -> None:
    task().execute(context(None))
    again, states = task(), States()
    again.execute(context(states, try_number=2))
    assert recorded(store).cached
    assert again.result == recorded(store).result
    assert states.kept == {"ratchet_max_tries": 2}


def test_a_refit_without_work_is_no_skip_so_that_register_still_says_why_it_has_none(
    plan: RunPlan, store: Store
) -> None:
    keep(store, plan, outcome("evaluate", summary={**JUDGED, "verdict": "reject"}))
    operator = task("refit")
    assert operator.execute(context(States())) == ""
    assert operator.result is None
    ended = recorded(store, "refit")
    assert (ended.state, ended.because) == ("skipped", "train.refit is false in this run")


def test_a_stage_without_work_is_skipped_and_says_why(plan: RunPlan, store: Store) -> None:
    keep(store, plan, outcome("evaluate", summary={**JUDGED, "verdict": "reject"}))
    operator = task("register")
    with pytest.raises(AirflowSkipException, match="reject: better by 2 %"):
        operator.execute(context(States()))
    assert (operator.why_skipped, operator.result) == ("reject: better by 2 %", None)
    assert recorded(store, "register").state == "skipped"


def test_a_failure_is_raised_as_it_is_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan_in(tmp_path, monkeypatch, days=2)
    with pytest.raises(DataRejected, match="2026-03-18"):
        task().execute(context(States()))
    ended = recorded(open_store(made.store))
    assert (ended.state, ended.again) == ("failed", False)


def test_what_airflow_tries_again_is_recorded_as_such_until_its_last_try(
    plan: RunPlan, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planted(_: object) -> str:
        raise KeyError("a bug")

    monkeypatch.setattr(operators, "_attempt_name", planted)
    for number, again in ((1, True), (2, False)):
        with pytest.raises(KeyError):  # a bug has one retry
            task("validate").execute(context(None, try_number=number))
        assert recorded(store, "validate").again is again


def test_an_outage_is_no_failure_until_its_limit_and_the_retries_are_over(plan: RunPlan) -> None:
    away, states, last = Unavailable("the engine is away"), States(), {"try_number": 3}
    assert goes_on(task(), context(None), away)
    assert not goes_on(task(), context(None, **last), away)
    assert goes_on(task(), context(states, **last), away)
    states.set(WAITED, [2, task().handling.outage_s])
    assert not goes_on(task(), context(states, **last), away)
    assert goes_on(task(), context(states), away)


def test_the_name_of_an_earlier_try_is_used_until_a_clear_raises_max_tries(plan: RunPlan) -> None:
    states, operator = States(), task()

    def cleared(try_number: int, max_tries: int) -> tuple[bool, Any]:
        now = context(states, try_number=try_number, max_tries=max_tries)
        return operator._note_clear(now), operator._kept_name(now)

    assert cleared(1, 2) == (False, None)
    states.set("ratchet_attempt", "try1")
    assert cleared(2, 2) == (False, "try1")
    assert cleared(3, 4) == (True, None)
    assert "ratchet_attempt" not in states.kept
    states.set("ratchet_attempt", "try3")
    assert cleared(4, 4) == (True, "try3")  # the try before was killed before it acted on the clear
    operator._clear_is_done(context(states, try_number=4, max_tries=4))
    assert cleared(5, 4) == (False, "try3")
    assert (operator._note_clear(context(None)), operator._kept_name(context(None))) == (False, None)


def test_a_clear_of_a_task_whose_first_try_was_killed_at_once_is_seen(plan: RunPlan) -> None:
    states, operator = States(), task()
    assert operator._note_clear(context(states, try_number=2, max_tries=3))
    assert not task()._note_clear(context(States(), try_number=2, max_tries=2))  # a plain retry


def test_what_a_try_notes_does_not_wait_for_a_plan(plan: RunPlan, store: Store) -> None:
    states = States()
    with pytest.raises(ConfigurationError):
        task().execute({**context(states), "run_id": "unplanned"})
    assert states.kept == {"ratchet_max_tries": 2}


def test_a_try_whose_earlier_container_is_gone_starts_its_own(plan: RunPlan, store: Store) -> None:
    states = States()
    states.kept = {"ratchet_attempt": "try0-gone", "ratchet_max_tries": 2}
    task().execute(context(states, try_number=2))
    result = recorded(store).result
    assert result is not None
    assert result.attempt.startswith("try2-")
    assert states.kept["ratchet_attempt"] == result.attempt


def test_a_stage_whose_container_went_while_it_was_left_begins_again_with_what_is_installed(
    plan: RunPlan, store: Store
) -> None:
    """As after `make down` for an upgrade, which is followed by a prune of images."""
    work, states = settle(store, plan, "ingest", "try1-left", on_event=print), States()
    assert isinstance(work, Work)
    states.kept = {"ratchet_attempt": "try1-left", "ratchet_max_tries": 2}
    left = {"request": work.request.model_dump_json(by_alias=True), "because": "", "preemptions": 0}
    key = paths.plan("search-ranking", "r")
    before = plan.model_copy(update={"pins": plan.pins.model_copy(update={"libraries": {"numpy": "1.0"}})})
    entry = store.head(key)
    assert entry is not None
    assert store.replace(key, before.model_dump_json(by_alias=True).encode(), expected=entry.etag)
    task().go_on(context(states), {"why": "its container is gone", "again": True}, **left)
    (change,) = RunPlan.model_validate_json(store.read(key)).upgrades
    assert (change.stage, change.because) == ("ingest", "the code that is installed here is another one")
    result = recorded(store).result
    assert result is not None
    assert states.kept["ratchet_attempt"] == result.attempt != "try1-left"


def test_a_triggerer_that_does_not_come_back_costs_no_try(plan: RunPlan, store: Store) -> None:
    """Airflow resumes the task to fail it, where the deferral has timed out or its trigger has failed."""
    work, states, operator = settle(store, plan, "ingest", "try1-left", on_event=print), States(), task()
    assert isinstance(work, Work)
    states.kept = {"ratchet_attempt": "try1-left", "ratchet_max_tries": 2}
    value = operator.resume_execution("__fail__", {"error": "Trigger timeout"}, context(states))
    assert value == f"{plan.store}/{recorded(store).manifest}"
    assert operator.follows_itself
    assert not task().follows_itself


def test_a_task_that_is_killed_while_it_waits_for_another_run_ends_and_has_kept_its_name(
    plan: RunPlan, store: Store
) -> None:
    hold = held_elsewhere(plan, store)
    operator, states, raised = task(), States(), []

    def execute() -> None:
        try:
            operator.execute(context(states))
        except Preempted as error:
            raised.append(error.cause)

    thread = threading.Thread(target=execute)
    thread.start()
    until(lambda: "ratchet_attempt" in states.kept)
    operator.on_kill()
    thread.join(30)
    assert raised == ["ingest received a notice to stop while it waited for another run"]
    assert recorded(store).state == "failed"
    assert hold.is_ours()
    hold.release()


def test_a_task_that_is_killed_before_its_attempt_begins_does_not_wait_either(plan: RunPlan, store: Store) -> None:
    hold, operator = held_elsewhere(plan, store), task()
    operator.on_kill()
    with pytest.raises(Preempted, match="received a notice to stop while it waited"):
        operator.execute(context(States()))
    assert hold.is_ours()
    hold.release()
