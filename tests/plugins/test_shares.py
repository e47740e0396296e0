"""The task that shares the days of a stage: when it ends, and what it goes on with."""

import asyncio
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from airflow._shared.module_loading import import_string
from airflow.sdk.exceptions import AirflowRuntimeError, AirflowSkipException
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from ratchet.contracts.errors import Unavailable
from ratchet.contracts.request import RunPlan
from ratchet_airflow import share_trigger
from ratchet_airflow.share_trigger import ShareTrigger
from ratchet_airflow.shares import ShareOperator
from ratchet_airflow.task_states import is_over, task_state
from tests.plugins.test_operators import States, context, plan_in


class Task:
    """The instance of a mapped task that a trigger is for."""

    dag_id, run_id, task_id, map_index = "d", "r", "ingest_share", 0


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What Airflow says of the tasks of run r."""
    said: dict[str, str] = {}
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", lambda **_: {"r": said})
    return said


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPlan:
    return plan_in(tmp_path, monkeypatch, days=3)


def share() -> ShareOperator:
    return ShareOperator(task_id="ingest_share", pipeline="search-ranking", stage="ingest", number=1, retries=1)


def test_a_share_makes_days_and_keeps_nothing_for_another_try(plan: RunPlan, states: dict[str, str]) -> None:
    states["ingest"] = "running"
    kept = States()
    assert share().execute(context(kept)) == ""
    assert kept.kept == {}


def test_a_share_whose_stage_has_ended_begins_nothing(plan: RunPlan, states: dict[str, str]) -> None:
    """Also where nothing is on record of how, as where a person has marked it as failed."""
    states["ingest"] = "failed"
    with pytest.raises(AirflowSkipException, match="ingest has ended"):
        share().execute(context(States()))


def test_a_share_that_cannot_help_is_tried_again_once_and_goes_on_then_with_what_it_began(
    plan: RunPlan, states: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    states["ingest"] = "running"
    kept = States()

    def away(*_: object, **__: object) -> None:
        raise Unavailable("the engine does not answer")

    with monkeypatch.context() as patched:
        patched.setattr("ratchet.runs.attempt.Attempt.compute", away)
        with pytest.raises(Unavailable):
            share().execute(context(kept, try_number=1, max_tries=1))
        assert list(kept.kept) == ["ratchet_share"]
        with pytest.raises(AirflowSkipException, match="goes on without this share: the engine does not answer"):
            share().execute(context(kept, try_number=2, max_tries=1))
        assert kept.kept == {}


def test_another_process_makes_the_same_trigger() -> None:
    path, given = ShareTrigger(store="/store", request="{}", stage="ingest").serialize()
    assert import_string(path)(**given).serialize() == (path, given)
    assert given["stage"] == "ingest"


def test_the_container_of_a_share_is_ended_once_its_stage_has_ended_and_not_before(
    states: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_trigger, "_LOOK_S", 0.01)
    monkeypatch.setattr(share_trigger, "_AGAIN_S", 0.05)
    trigger, notices, sent_again = ShareTrigger(store="mem://t", request="{}", stage="ingest"), list[str](), Event()
    made: Any = trigger
    made.task_instance = Task

    def notify() -> None:
        notices.append(states["ingest"])
        if len(notices) > 1:
            sent_again.set()
        raise Unavailable("the engine does not answer")

    monkeypatch.setattr(trigger, "end", notify)

    async def watched() -> None:
        watching = asyncio.ensure_future(trigger.watch())
        for state in ("running", "up_for_retry", "deferred"):
            states["ingest"] = state
            await asyncio.sleep(0.2)
        states["ingest"] = "failed"
        await asyncio.to_thread(sent_again.wait, 30)
        watching.cancel()

    asyncio.run(watched())
    assert set(notices) == {"failed"}
    assert sent_again.is_set(), "a notice that the engine did not take is sent again"


def test_a_look_that_fails_in_whatever_way_is_not_the_last_one(
    states: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the triggerer cannot start a process for the notice. The triggerer keeps the lease: no reaper sees it."""
    monkeypatch.setattr(share_trigger, "_LOOK_S", 0.01)
    trigger, failures = ShareTrigger(store="mem://t", request="{}", stage="ingest"), [BlockingIOError(11, "fork")]
    made: Any = trigger
    made.task_instance = Task
    states["ingest"] = "failed"
    ended = Event()

    def notify() -> None:
        if failures:
            raise failures.pop()
        ended.set()

    monkeypatch.setattr(trigger, "end", notify)

    async def watched() -> None:
        watching = asyncio.ensure_future(trigger.watch())
        await asyncio.to_thread(ended.wait, 30)
        watching.cancel()

    asyncio.run(watched())
    assert ended.is_set()


def test_the_state_of_a_mapped_task_is_that_of_its_number(states: dict[str, str]) -> None:
    states.update({"ingest_share_0": "deferred", "ingest_share_1": "success", "ingest": "failed"})
    assert task_state("d", "r", "ingest_share", 0) == "deferred"
    assert task_state("d", "r", "ingest", -1) == "failed"
    assert is_over("d", "r", "ingest")


def test_a_task_is_not_over_because_airflow_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(**_: object) -> None:
        raise AirflowRuntimeError(ErrorResponse())

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", away)
    assert not is_over("d", "r", "ingest")
