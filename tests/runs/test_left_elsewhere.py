"""What tasks leave on a host: what its reaper says of it to the follower, and what that one says of its own errors."""

import json
import uuid
from collections.abc import Iterator
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ratchet.contracts import left_paths
from ratchet.contracts.errors import NoAnswer, OtherRelease, RatchetError, Unavailable
from ratchet.contracts.request import StageRequest
from ratchet.runners.docker import DockerRunner
from ratchet.runners.runner import Engine
from ratchet.runs.events import Event as Said
from ratchet.runs.host_follower import HostFollower, _LeftJob
from ratchet.runs.left_elsewhere import FarFollower, answer, end_without_task, leave, new_place
from ratchet.runs.left_job import Why
from ratchet.runs.passed_lines import PassedLines, read_lines
from ratchet.store.base import Entry, Store
from ratchet.store.memory import MemoryStore
from tests.runs.recorded import training
from tests.runs.test_jobs import request_for
from tests.runs.test_requests import plan
from tests.waiting import until

HERE, THERE = Engine("here/1", "here"), Engine("there/1", "there")


def left(store: Store, run: str, engine: Engine = HERE) -> str:
    request: StageRequest = request_for("train").model_copy(update={"run_id": run})
    place = new_place(cast("Any", SimpleNamespace(installation="team")), request, engine)
    leave(store, place, request)
    return place


def test_the_follower_of_a_host_hears_of_tasks_that_are_over_though_no_triggerer_says_so() -> None:
    store, asked = MemoryStore(uuid.uuid4().hex), list[tuple[str, str, str]]()
    places = {run: left(store, run) for run in ("over", "goes-on", "answered")}
    left(store, "elsewhere", THERE)
    answer(store, places["answered"], Why("it has ended", again=True))
    damaged = left_paths.left("team", HERE.id, "damaged")
    store.create(left_paths.job(damaged), b"{")

    def is_alive(pipeline: str, run: str, stage: str) -> bool:
        asked.append((pipeline, run, stage))
        return run not in over

    over, seen = {"over", "goes-on"}, set[str]()
    assert end_without_task(store, "team", HERE, is_alive, seen) == []  # one answer is no reason
    over.remove("goes-on")
    assert end_without_task(store, "team", HERE, is_alive, seen) == [places["over"]]
    assert {run for _, run, _ in asked} == {"over", "goes-on"}
    assert {stage for *_, stage in asked} == {"train"}
    marks = [entry.key for entry in store.list(left_paths.EVERY) if entry.key.endswith("/end")]
    assert marks == [left_paths.end(places["over"])]
    over.add("goes-on")
    assert end_without_task(store, "team", HERE, is_alive, seen) == []  # it is said once
    assert seen == {places["goes-on"]}


def test_a_trigger_that_is_cancelled_deletes_no_line_that_its_log_may_not_have() -> None:
    store, over, heard = MemoryStore(uuid.uuid4().hex), Event(), list[str]()
    work = training(store, plan({}, store=store.uri))
    place = left_paths.left("team", HERE.id, "a")
    lines = PassedLines(store, place)
    for message in ("one", "two"):
        lines.hear(Said(name="text", level="info", message=message))
    lines.look(0)

    def hear(event: Said) -> None:
        heard.append(event.message)
        over.set()

    far = FarFollower(store, work.plan, work.request, place, over=over, on_event=hear)
    assert far.follow() == Why("it was left", again=True)
    assert heard == ["one"]
    again = [event.message for event in read_lines(store, list(store.list(place)))]
    assert again == ["one", "two"]


def test_a_part_that_cannot_be_deleted_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the task would wait for the end of its deferral, hours after its job has ended."""
    store, heard = MemoryStore(uuid.uuid4().hex), list[str]()
    work = training(store, plan({}, store=store.uri))
    place = left_paths.left("team", HERE.id, "a")
    lines = PassedLines(store, place)
    lines.hear(Said(name="text", level="info", message="one"))
    lines.look(0)

    def refuses(*_: object) -> bool:
        raise NoAnswer("the store refuses to delete")

    monkeypatch.setattr(store, "delete", refuses)
    answer(store, place, Why("it has ended", again=True))
    far = FarFollower(
        store, work.plan, work.request, place, over=Event(), on_event=lambda said: heard.append(said.message)
    )
    assert far.follow() == Why("it has ended", again=True)
    assert heard == ["one"]


def test_what_a_follower_says_of_an_error_has_no_secret(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore(uuid.uuid4().hex)
    place = left(store, "r")
    follower = HostFollower(store, cast("DockerRunner", SimpleNamespace(engine=HERE)), "team")

    def fails(_: str) -> bytes:
        raise ValueError("cannot open postgresql://shop:hunter2@db/orders")

    with monkeypatch.context() as patched:
        patched.setattr(store, "read", fails)
        follower.look()
        until(lambda: store.head(left_paths.why(place)))
    said = store.read(left_paths.why(place)).decode()
    assert "cannot open" in said
    assert "cannot open" in caplog.text
    assert "hunter2" not in said + caplog.text


def test_a_job_that_is_answered_during_a_look_is_not_begun_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would be followed beside its answer, and the reaper would take it for followed after the end of its task."""
    store, followed, goes_on = MemoryStore(uuid.uuid4().hex), list[str](), Event()
    place = left(store, "r")

    def follow(job: _LeftJob) -> Why:
        followed.append(job.name)
        goes_on.wait()
        return Why("the Docker engine does not answer", again=True)

    def ends_meanwhile(prefix: str = "") -> Iterator[Entry]:
        found = list(MemoryStore.list(store, prefix))
        goes_on.set()
        until(lambda: not any(job.is_alive() for job in follower._jobs.values()))
        return iter(found)

    monkeypatch.setattr(_LeftJob, "_follow", follow)
    follower = HostFollower(store, cast("DockerRunner", SimpleNamespace(engine=HERE)), "team")
    follower.look()
    with monkeypatch.context() as patched:
        patched.setattr(store, "list", ends_meanwhile)
        follower.look()
    follower.look()
    assert (len(followed), follower._jobs) == (1, {})
    assert store.head(left_paths.why(place)) is not None


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (Unavailable("the Docker engine refused: 500 Server Error"), True),
        (OtherRelease("cannot be read by Ratchet"), False),
        (ValueError("a bug"), False),
    ],
)
def test_what_passes_by_itself_does_not_keep_the_task_at_its_worker(
    monkeypatch: pytest.MonkeyPatch, error: Exception, again: bool
) -> None:
    store = MemoryStore(uuid.uuid4().hex)
    place = left(store, "r")

    def fails(_: _LeftJob) -> Why:
        raise error

    monkeypatch.setattr(_LeftJob, "_follow", fails)
    HostFollower(store, cast("DockerRunner", SimpleNamespace(engine=HERE)), "team").look()
    until(lambda: store.head(left_paths.why(place)))
    assert json.loads(store.read(left_paths.why(place)))["again"] is again


def test_a_follower_that_the_store_refuses_is_not_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with keys that may read alone: else tasks would go on leaving containers to it."""
    store = MemoryStore(uuid.uuid4().hex)
    place = left(store, "r")
    follower = HostFollower(store, cast("DockerRunner", SimpleNamespace(engine=HERE)), "team")

    def refuses(key: str, data: bytes) -> bool:
        raise Unavailable(f"{key}: access denied")

    def error() -> RatchetError | None:
        try:
            follower.look()
        except RatchetError as raised:
            return raised
        return None

    with monkeypatch.context() as patched:
        patched.setattr(store, "create", refuses)
        assert "access denied" in str(until(error))
    until(lambda: error() is None and store.head(left_paths.why(place)))
