"""A container ends without a result, and its task goes on beside another engine: the same end, and no second training."""

import json
import tempfile
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ratchet.contracts import left_paths
from ratchet.contracts.errors import (
    ConfigurationError,
    CorruptArtifact,
    Interrupted,
    NoAnswer,
    OutOfMemory,
    RatchetError,
)
from ratchet.contracts.labels import Label
from ratchet.runners.container import OUT_OF_MEMORY_SEEN
from ratchet.runners.docker import DockerRunner
from ratchet.runs import left_job
from ratchet.runs.attempt import Attempt
from ratchet.runs.host_follower import HostFollower
from ratchet.runs.left_elsewhere import leave, new_place
from ratchet.runs.left_job import Follower
from ratchet.runs.reaping import free_leases
from ratchet.runs.taking import Elsewhere, mark_over, place_of
from ratchet.runs.work import Work
from ratchet.store import lease as leases
from ratchet.store.lease import Waiter, holder_of, new_lease
from ratchet.store.memory import MemoryStore
from ratchet_airflow.leaving import take_back_left
from tests.faults.second_engine import IMAGE, NEEDS, SecondEngine
from tests.plugins.test_leaving import States
from tests.runs.recorded import keep_plan, kept, training
from tests.runs.test_requests import plan
from tests.runs.test_try_log import compute
from tests.waiting import until

pytestmark = [*NEEDS, pytest.mark.xdist_group("second-engine")]
CANARY = "canary-7f3a9"


def failing(code: int, **marks: bool) -> str:
    """A program that logs a failure, with a secret in it, and ends with its code."""
    event = {"event": "failure", "message": "m", "code": code, "cause": f"with {CANARY}", "remedy": "mend it", **marks}
    return f"echo '{json.dumps(event)}'; exit {code}"


ENDS: dict[str, tuple[str, type[RatchetError], str]] = {
    "user-error": (failing(64), ConfigurationError, "the configuration is invalid"),
    "outage": (failing(69, no_answer=True), NoAnswer, "did not answer"),
    "damaged": (failing(70, damaged=True), CorruptArtifact, "a bug in Ratchet"),
    "unsaid": ("exit 69", Interrupted, "did not answer"),
    "killed": ("kill -9 $$", Interrupted, "was killed from outside"),
    "late": ("exit 75", Interrupted, "and was stopped"),
    "no-result": ("exit 0", RatchetError, "before it published its result"),
    "memory": (f"exit {OUT_OF_MEMORY_SEEN}", OutOfMemory, "of memory"),  # the last: tries after it compute otherwise
}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    monkeypatch.setattr(leases, "STALE_S", 0.5)
    monkeypatch.setenv("SHOP_TOKEN", CANARY)
    return MemoryStore(uuid.uuid4().hex)


@pytest.fixture
def here(store: MemoryStore, stage_image: str) -> Iterator[DockerRunner]:
    """The host of the containers."""
    runner = DockerRunner()
    yield runner
    for handle in runner.find({Label.TEST_ID: store.uri}):
        runner.remove(handle)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerRunner]:
    """A host with another engine. The folder's path is short, for sockets have room for 107 bytes."""
    engine = SecondEngine(Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp")))
    try:
        engine.start()
        engine.load_image()
        with monkeypatch.context() as there:
            there.setenv("DOCKER_HOST", engine.address)
            runner = DockerRunner()
            assert runner.engine.id
        yield runner
    finally:
        engine.clear()


def work_of(store: MemoryStore, number: int, attempt: str, program: str, image: str) -> Work:
    """A training with a program in the stage's place."""
    work = training(store, plan({"train.epochs": number}, store=store.uri), attempt)
    labels = {**work.job.labels, Label.TEST: "1", Label.TEST_ID: store.uri}
    work.__dict__["job"] = replace(work.job, command=("/bin/sh", "-c", program), image=image, labels=labels)
    return work


def left(work: Work, runner: DockerRunner) -> None:
    """A container that ends, and whose worker has died before."""
    runner.wait(begun(work, runner))


def begun(work: Work, runner: DockerRunner) -> str:
    """A container whose worker has died."""
    hold = Waiter(work.store, work.lease, new_lease("r", work.attempt), engine=runner.engine.id).take()
    assert hold is not None
    hold.point_at(work.attempt, datetime.now(UTC), place=place_of(work, runner.engine))
    handle = runner.submit(work.job)
    hold._over.set()
    hold._thread.join()
    return handle


def test_nobody_followed_it_and_its_reaper_says_how_it_ended(
    store: MemoryStore, here: DockerRunner, elsewhere: DockerRunner, stage_image: str
) -> None:
    """Then the next try computes, as on one host."""
    works = {name: (number, program) for number, (name, (program, _, _)) in enumerate(ENDS.items(), start=1)}
    for name, (number, program) in works.items():
        left(work := work_of(store, number, name, program, stage_image), here)
        if name == "late":
            mark_over(work, name)
    left(work_of(store, 90, "saved", "exit 75", stage_image), here)
    retry = work_of(store, 1, "retry", "exit 0", IMAGE)
    with pytest.raises(Elsewhere):
        Attempt(retry, elsewhere, on_event=print).compute()
    assert free_leases(store, here) == ["train of small"] * (len(ENDS) + 1)
    assert free_leases(store, here) == []
    assert all(CANARY.encode() not in store.read(entry.key) for entry in store.list(""))

    said: list[str] = []
    saved = work_of(store, 90, "retry-saved", failing(64), IMAGE)
    with pytest.raises(ConfigurationError):
        Attempt(saved, elsewhere, on_event=lambda event: said.append(event.message)).compute()
    assert said[0].endswith("it goes on here")

    for name, (number, _) in works.items():
        _, kind, cause = ENDS[name]
        work = work_of(store, number, f"retry-{name}", "exit 1", IMAGE)
        with pytest.raises(RatchetError) as raised:
            compute(Attempt(work, elsewhere, on_event=print))
        assert (type(raised.value), raised.value.code) == (kind, kind.code), (name, raised.value)
        assert cause in raised.value.cause, name
        recorded = kept(store, work.plan, "train")
        assert recorded.state == "failed"
        assert f"its log is on {here.engine.host} alone" in recorded.last_lines[-1]
        assert holder_of(store, work.lease) is None
    assert elsewhere.find({}) == []


def test_its_follower_says_at_once_how_it_ended_with_its_words_and_its_log(
    store: MemoryStore, here: DockerRunner, elsewhere: DockerRunner, stage_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_job, "LOOK_S", 0.5)
    work = work_of(store, 1, "a", failing(64), stage_image)
    left(work, here)
    follower = Follower(store, work.plan, work.request, here, name="t", over=threading.Event(), on_event=print)
    why = follower.follow()
    assert (why.text, why.log) == ("it has ended", "runs/small/r/train.1.log")
    attempt = Attempt(work_of(store, 1, "b", "exit 1", IMAGE), elsewhere, on_event=print)
    with pytest.raises(ConfigurationError, match=r"with \*\*\*; to do: mend it") as raised:
        compute(attempt)
    assert raised.value.last_lines == ("m",)
    assert (kept(store, work.plan, "train").log, raised.value.log) == (why.log, f"{store.uri}/{why.log}")
    assert all(CANARY.encode() not in store.read(entry.key) for entry in store.list(""))
    assert (elsewhere.find({}), holder_of(store, work.lease)) == ([], None)


def test_a_try_on_another_host_leaves_it_to_the_follower_there_which_says_how_it_ended(
    store: MemoryStore, here: DockerRunner, elsewhere: DockerRunner, stage_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where its host was cut off for a minute: nobody else sees its end, stops it in time, or gives it new keys."""
    monkeypatch.setattr(left_job, "LOOK_S", 0.5)
    work = work_of(store, 1, "a", f"sleep 4; {failing(64)}", stage_image)
    keep_plan(store, work.plan)
    begun(work, here)
    place = new_place(work.plan, work.request, here.engine)
    leave(store, place, work.request)
    follower = HostFollower(store, here, work.plan.installation)
    follower.look()
    retry, states = work_of(store, 1, "b", "exit 1", IMAGE), States({"ratchet_left": place})
    take_back_left(store, work.plan.installation, elsewhere, states, print)
    with pytest.raises(Elsewhere):
        Attempt(retry, elsewhere, on_event=print).compute()

    def is_answered() -> bool:
        follower.look()
        return store.head(left_paths.why(place)) is not None

    until(is_answered)
    with pytest.raises(ConfigurationError, match=r"with \*\*\*; to do: mend it"):
        compute(Attempt(retry, elsewhere, on_event=print))
    assert kept(store, work.plan, "train").log == "runs/small/r/train.1.log"
    assert (elsewhere.find({}), holder_of(store, work.lease)) == ([], None)
    follower.stop(5)
