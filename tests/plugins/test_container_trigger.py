"""The trigger that follows a container while its task is deferred: when it may, and what it must not do."""

import asyncio
import http.server
import json
import math
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow._shared.module_loading import import_string
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from ratchet.contracts.errors import ConfigurationError, NoAnswer, OtherRelease, Unavailable
from ratchet.runners.process import ProcessRunner
from ratchet.runs.events import Event
from ratchet.runs.left_job import Why
from ratchet_airflow.container_trigger import ContainerTrigger, _log_event, is_triggerer_well
from ratchet_airflow.leaving import follower_here
from ratchet_airflow.operators import StageOperator
from ratchet_airflow.servers import alive_file
from tests.waiting import until


@pytest.fixture
def health(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """What Airflow's server says of its health."""
    said: dict[str, object] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/base/api/v2/monitor/health"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(said).encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        address = f"http://127.0.0.1:{server.server_port}/base/execution/"
        monkeypatch.setenv("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", address)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield said
        server.shutdown()


@pytest.mark.parametrize(
    ("part", "well"),
    [({"status": "healthy"}, True), ({"status": "unhealthy"}, False), ({"status": None}, False), (None, False)],
)
def test_only_a_healthy_triggerer_is_trusted(health: dict[str, object], part: object, well: bool) -> None:
    health["triggerer"] = part
    assert is_triggerer_well() is well


def test_without_an_answer_there_is_no_triggerer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", "http://127.0.0.1:1/execution/")
    assert not is_triggerer_well()


def test_another_process_makes_the_same_trigger() -> None:
    path, given = ContainerTrigger(store="/store", request="{}").serialize()
    assert import_string(path)(**given).serialize() == (path, given)


def test_a_request_that_is_not_understood_gives_the_task_back_and_it_is_not_deferred_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ratchet_airflow.container_trigger._LEAST_S", 0.0)

    async def fired() -> list[object]:
        return [event.payload async for event in ContainerTrigger(store="mem://t", request="{}").run()]

    (payload,) = asyncio.run(fired())
    assert isinstance(payload, dict)
    assert payload["again"] is False
    assert "StageRequest" in payload["why"]


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (NoAnswer("the store does not answer"), True),
        (Unavailable("the Docker engine refused: 500 Server Error"), True),
        (OtherRelease("cannot be read by this release"), False),
        (ValueError("a bug"), False),
    ],
)
def test_after_what_passes_by_itself_the_task_is_deferred_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception, again: bool
) -> None:
    monkeypatch.setattr("ratchet_airflow.container_trigger._LEAST_S", 0.0)
    trigger = ContainerTrigger(store="mem://t", request="{}")

    def fails() -> None:
        raise error

    monkeypatch.setattr(trigger, "_open", lambda: SimpleNamespace(follow=fails))
    payload = asyncio.run(_fired(trigger))
    assert (payload["again"], str(error) in payload["why"]) == (again, True)


def test_a_store_that_is_away_as_the_trigger_begins_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every task that was deferred needs a worker at once, as after a triggerer that began again."""
    monkeypatch.setattr("ratchet_airflow.container_trigger._LEAST_S", 0.0)
    monkeypatch.setattr("ratchet_airflow.container_trigger._AGAIN_S", 0.01)
    trigger, tries = ContainerTrigger(store="mem://t", request="{}"), list[int]()

    def opened() -> SimpleNamespace:
        tries.append(1)
        if len(tries) < 3:
            raise NoAnswer("the store does not answer")
        return SimpleNamespace(follow=lambda: Why("it has ended", again=True))

    monkeypatch.setattr(trigger, "_open", opened)
    assert asyncio.run(_fired(trigger)) == {"why": "it has ended", "again": True, "log": None}
    assert len(tries) == 3


async def _fired(trigger: ContainerTrigger) -> dict[str, Any]:
    """What its only event says."""
    (event,) = [event async for event in trigger.run()]
    assert isinstance(event.payload, dict)
    return event.payload


def test_a_trigger_that_another_triggerer_takes_over_ends_no_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow 3.3 calls on_kill there, too: the task is still deferred."""
    trigger, asked = ContainerTrigger(store="mem://t", request="not a request"), []
    trigger.task_instance = SimpleNamespace(dag_id="d", run_id="r", task_id="train", id="1", map_index=-1)
    states = {"r": {"train": "deferred"}}

    def answer(**given: object) -> dict[str, dict[str, str]]:
        asked.append(given)
        return states

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", answer)
    asyncio.run(trigger.on_kill())
    assert asked == [{"dag_id": "d", "task_ids": ["train"], "run_ids": ["r"]}]
    states["r"]["train"] = "failed"
    with pytest.raises(ValueError, match="StageRequest"):  # it goes on to find its container
        asyncio.run(trigger.on_kill())


def test_a_store_that_is_slow_while_a_container_is_ended_holds_up_no_other_trigger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trigger, asked, goes_on = ContainerTrigger(store="mem://t", request="slow"), threading.Event(), threading.Event()
    monkeypatch.setattr(trigger, "_is_deferred", lambda: False)

    def slow() -> SimpleNamespace:
        asked.set()
        assert goes_on.wait(60)
        return SimpleNamespace(end=lambda: None)

    async def other() -> None:
        await asyncio.to_thread(asked.wait)
        goes_on.set()

    async def both() -> None:
        await asyncio.gather(trigger.on_kill(), other())

    monkeypatch.setattr(trigger, "_open", slow)
    asyncio.run(both())


def test_a_container_that_prints_without_end_holds_up_no_other_trigger(monkeypatch: pytest.MonkeyPatch) -> None:
    """It prints until another trigger has fired, which runs in the same loop."""
    monkeypatch.setattr("ratchet_airflow.container_trigger._LEAST_S", 0.0)
    chatty, other = (ContainerTrigger(store="mem://t", request=name) for name in ("chatty", "other"))
    fired, printed = threading.Event(), list[int]()

    class Chatty:
        def follow(self) -> Why:
            while not fired.is_set() or len(printed) < 1000:
                printed.append(len(printed))
                _log_event(Event(name="progress", level="debug", message=f"line {len(printed)}"))
            return Why("it has ended", again=True)

    class Other:
        def follow(self) -> Why:
            until(lambda: len(printed) > 0, seconds=30)
            return Why("it has ended", again=True)

    monkeypatch.setattr(chatty, "_open", Chatty)
    monkeypatch.setattr(other, "_open", Other)

    async def events(trigger: ContainerTrigger) -> list[object]:
        found = [event.payload async for event in trigger.run()]
        if trigger is other:
            fired.set()
        return found

    async def both() -> list[list[object]]:
        return [*await asyncio.wait_for(asyncio.gather(events(chatty), events(other)), timeout=60)]

    assert asyncio.run(both()) == [[{"why": "it has ended", "again": True, "log": None}]] * 2


def test_a_process_is_never_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_DEFER_SECONDS", "1")
    leave = StageOperator(pipeline="p", stage="train").when_to_leave(ProcessRunner(), again=True)
    assert leave.due < math.inf  # until then it waits for another run
    leave.due = 0.0
    assert not leave.is_now(math.inf)


def test_a_wrong_follower_is_said_before_a_container_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a container is to be left it is too late: an error ends it."""
    monkeypatch.setenv("RATCHET_DEFER_SECONDS", "1")
    monkeypatch.setenv("RATCHET_FOLLOWER", "hosts")
    with pytest.raises(ConfigurationError, match="RATCHET_FOLLOWER"):
        StageOperator(pipeline="p", stage="train").when_to_leave(ProcessRunner(), again=True)


@pytest.mark.parametrize(("ago_s", "is_well"), [(0.0, True), (120.0, False), (-3600.0, False)])
def test_a_follower_that_has_looked_a_moment_ago_is_well_also_where_the_clock_is_set_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ago_s: float, *, is_well: bool
) -> None:
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(tmp_path / "alerts.jsonl"))
    assert follower_here() is None
    alive_file("follower").write_text("what it follows", encoding="utf-8")
    then = time.time() - ago_s
    os.utime(alive_file("follower"), (then, then))
    assert follower_here() == ("what it follows" if is_well else None)
