"""Attempts that meet another one's lease, without an engine. Those of real trainings are in test_attempt."""

import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import DataRejected, JobGone, NoAnswer, Preempted, RatchetError, Unavailable
from ratchet.contracts.request import RunPlan
from ratchet.runners.following import Leave
from ratchet.runners.job import Job
from ratchet.runners.process import ProcessRunner
from ratchet.runners.runner import Engine
from ratchet.runs import taking
from ratchet.runs.attempt import Attempt
from ratchet.runs.events import Event
from ratchet.runs.stage_record import StageRecord
from ratchet.runs.taking import Elsewhere, OtherRun, place_of, take_lease
from ratchet.runs.work import Work
from ratchet.store.base import Entry, Store
from ratchet.store.lease import Hold, Waiter, holder_of, new_lease
from ratchet.store.memory import MemoryStore
from ratchet.store.sealed import seal
from tests.runs.recorded import kept, publish, training
from tests.runs.test_requests import plan
from tests.waiting import until

PREEMPTED = """
import pathlib, sys, time
starts = pathlib.Path(sys.argv[1])
starts.write_text(starts.read_text() + "x" if starts.exists() else "x")
print("ready", flush=True)
while not pathlib.Path(sys.argv[2]).exists():
    time.sleep(0.01)
sys.exit(75)
"""
"""Writes down that it was started, and ends as preempted as soon as a file exists."""
PREEMPTED_BEFORE = """
import pathlib, signal, sys
starts = pathlib.Path(sys.argv[1])
starts.write_text(starts.read_text() + "x" if starts.exists() else "x")
if len(starts.read_text()) < int(sys.argv[2]):
    sys.exit(75)
signal.pause()
"""
"""Ends as preempted until it has been started so many times; then it goes on until it gets a signal."""


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(uuid.uuid4().hex)


@pytest.fixture
def messages() -> list[str]:
    return []


def made(store: Store, **overrides: Any) -> RunPlan:
    return plan(overrides, store=store.uri)


def take(work: Work, run: str, attempt: str) -> Hold:
    hold = Waiter(work.store, work.lease, new_lease(run, attempt)).take()
    assert hold is not None
    return hold


@pytest.fixture
def elsewhere(store: MemoryStore) -> Iterator[Hold]:
    """Another run holds the lease."""
    hold = take(training(store, made(store)), "elsewhere", "other")
    yield hold
    hold.release()


def running(work: Work, program: str, *words: str) -> Work:
    """The work with a program in the stage's place."""
    job = replace(work.job, command=(sys.executable, "-I", "-S", "-c", program, *words))
    work.__dict__["job"] = job
    return work


def attempt(work: Work, messages: list[str]) -> Attempt:
    def listen(event: Event) -> None:
        messages.append(event.message)

    return Attempt(work, ProcessRunner(), on_event=listen)


def test_an_attempt_waits_for_another_run_and_takes_its_result(
    store: MemoryStore, elsewhere: Hold, messages: list[str]
) -> None:
    work = training(store, made(store))
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(attempt(work, messages).compute)
        until(lambda: messages)
        publish(work, "other")
        found = waits.result(timeout=30)
    assert len(messages) == 1
    assert messages[0].startswith("run elsewhere computes the same since ")
    assert (found.state, found.cached, found.because) == ("done", True, "another run built it (attempt other)")
    assert elsewhere.is_ours()


def test_a_result_that_is_published_when_the_lease_is_taken_is_found_and_the_lease_given_back(
    store: MemoryStore, messages: list[str]
) -> None:
    work = training(store, made(store))
    publish(work, "other")
    ours = attempt(work, messages)
    assert ours.compute().cached
    assert not ours.lost
    assert holder_of(store, work.lease) is None


def test_an_attempt_begins_nothing_while_a_container_of_another_host_may_compute_it(
    store: MemoryStore, messages: list[str]
) -> None:
    work = training(store, made(store))
    hold = Waiter(store, work.lease, new_lease(work.plan.run_id, "other"), engine="e" * 30).take()
    assert hold is not None
    hold.point_at("other", datetime.now(UTC), place=place_of(work, Engine("e" * 30, "gpu-2")))
    hold.release(lives=True)
    with pytest.raises(Elsewhere) as raised:
        attempt(work, messages).compute()
    assert str(raised.value) == (
        "train: the container of attempt other may still run on gpu-2, whose engine this host does not reach; to do: wait for its result, or for a try on gpu-2; if that host is gone for good: `ratchet host-gone "
        "gpu-2 --because WHY`"
    )
    publish(work, "other")
    assert attempt(work, messages).compute().cached


def test_what_was_left_and_ended_on_another_host_is_built_by_its_own_attempt(
    store: MemoryStore, messages: list[str]
) -> None:
    """So `ratchet why` names it, and later runs begin with what fits into memory."""
    work = training(store, made(store))
    publish(work, work.attempt)
    mark = store.head(paths.built(work.plan.spec.name, "train", work.request.fingerprint))
    assert mark is not None
    assert store.delete(mark.key, expected=mark.etag)
    outcome = attempt(work, messages).compute(work.attempt)
    assert (outcome.cached, outcome.because) == (False, work.because)
    assert store.head(mark.key) is not None


def test_an_interrupted_attempt_does_not_wait_on(store: MemoryStore, elsewhere: Hold, messages: list[str]) -> None:
    ours = attempt(training(store, made(store)), messages)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(ours.compute)
        until(lambda: messages)
        ours.interrupt()
        with pytest.raises(Preempted, match="train received a notice to stop while it waited for another run"):
            waits.result(timeout=30)
    assert elsewhere.is_ours()


def test_an_attempt_waits_no_longer_than_its_stage_may_take(
    store: MemoryStore, elsewhere: Hold, messages: list[str]
) -> None:
    settings = {"stages.train.timeout": "1s", "stages.train.grace": "1s"}
    late = training(store, made(store, **settings))
    assert late.lease == training(store, made(store)).lease
    with pytest.raises(Unavailable, match=r"train waited 1s for another run .* raise stages\.train\.timeout"):
        attempt(late, messages).compute()
    assert elsewhere.is_ours()


def test_an_attempt_that_waits_long_for_another_run_ends_where_its_caller_looks_again(
    store: MemoryStore, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "_LATER_S", 0.1)
    monkeypatch.setattr("ratchet.store.lease.STALE_S", 2.0)
    monkeypatch.setattr("ratchet.store.lease.BEAT_S", 0.05)
    work = training(store, made(store))
    elsewhere = take(work, "elsewhere", "other")
    ours = Attempt(work, ProcessRunner(), on_event=lambda event: messages.append(event.message), leave=Leave(0.1))
    with pytest.raises(OtherRun, match="run elsewhere computes train with the same inputs"):
        ours.compute()
    assert elsewhere.release()


def test_who_waits_for_another_run_looks_until_it_is_known_whether_its_holder_lives(
    store: MemoryStore, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its host died. Where the store answers slowly, that is noticed later, and each look begins to count again."""
    monkeypatch.setattr(taking, "_POLL_S", 0.02)
    monkeypatch.setattr(taking, "_LATER_S", 0.0)
    monkeypatch.setattr("ratchet.store.lease.STALE_S", 0.5)
    work, head = training(store, made(store)), store.head
    store.create(work.lease, seal(new_lease("elsewhere", "dead").model_copy(update={"process": None})))

    def slowly(key: str) -> Entry | None:
        time.sleep(0.02 if key == work.lease else 0)
        return head(key)

    monkeypatch.setattr(store, "head", slowly)
    waiter = Waiter(store, work.lease, new_lease(work.plan.run_id, "a"))
    hold = take_lease(work, waiter, say=messages.append, is_stopping=lambda: False, until=time.monotonic())
    assert isinstance(hold, Hold)
    assert hold.release()


def test_an_interrupted_process_is_stopped_and_not_started_again(
    store: MemoryStore, messages: list[str], tmp_path: Path
) -> None:
    work = running(training(store, made(store)), PREEMPTED, str(tmp_path / "starts"), str(tmp_path / "never"))
    ours = attempt(work, messages)
    with ThreadPoolExecutor(1) as pool:
        computes = pool.submit(ours.compute)
        until(lambda: "ready" in messages)
        ours.interrupt()
        with pytest.raises(RatchetError):
            computes.result(timeout=30)
    assert (tmp_path / "starts").read_text() == "x"
    assert not ours.lost
    assert ours.last_lines == ("ready",)
    assert holder_of(store, work.lease) is None


@pytest.mark.parametrize("number", [1, 2])
def test_a_notice_that_arrives_while_a_process_starts_stops_it(
    store: MemoryStore, messages: list[str], tmp_path: Path, number: int
) -> None:
    """A signal's handler may run between the start of the process and the moment when its handle is known."""
    settings = {"stages.train.timeout": "20s", "stages.train.grace": "1s"}
    work = running(training(store, made(store, **settings)), PREEMPTED_BEFORE, str(tmp_path / "starts"), str(number))

    class Interrupted(ProcessRunner):
        submissions = 0

        def submit(self, job: Job) -> str:
            handle = super().submit(job)
            self.submissions += 1
            if self.submissions == number:
                ours.interrupt()
            return handle

    runner = Interrupted()
    ours = Attempt(work, runner, on_event=lambda event: messages.append(event.message))
    with pytest.raises(RatchetError, match="signal 15"):
        ours.compute()
    assert runner.submissions == number
    assert holder_of(store, work.lease) is None


def test_a_preempted_process_is_not_started_again_once_its_lease_is_taken_over(
    store: MemoryStore, messages: list[str], tmp_path: Path
) -> None:
    """The follower was frozen; its successor has stopped the job and published the result meanwhile."""
    starts, ends = tmp_path / "starts", tmp_path / "ends"
    work = running(training(store, made(store)), PREEMPTED, str(starts), str(ends))
    ours = attempt(work, messages)
    with ThreadPoolExecutor(1) as pool:
        computes = pool.submit(ours.compute)
        until(lambda: "ready" in messages)
        successor = take(work, work.plan.run_id, "successor")
        publish(work, "successor")
        ends.touch()
        found = computes.result(timeout=30)
    assert found.state == "done"
    assert starts.read_text() == "x"
    assert ours.lost
    assert successor.release()


def test_a_stage_whose_own_code_ends_the_process_is_named_so(store: MemoryStore, messages: list[str]) -> None:
    work = running(training(store, made(store)), "import os; os._exit(0)")
    with pytest.raises(RatchetError, match=r"exit code 0 before it published its result; to do: look for os\._exit in"):
        attempt(work, messages).compute()


def test_an_attempt_that_lost_its_lease_to_a_later_try_does_not_take_it_back(
    store: MemoryStore, messages: list[str], tmp_path: Path
) -> None:
    """It was frozen, and wakes up while the later try of the same run is at work."""
    starts, ends = tmp_path / "starts", tmp_path / "ends"
    work = running(training(store, made(store)), PREEMPTED, str(starts), str(ends))
    ours = attempt(work, messages)
    with ThreadPoolExecutor(1) as pool:
        computes = pool.submit(ours.compute)
        until(lambda: "ready" in messages)
        successor = take(work, work.plan.run_id, "successor")
        ends.touch()
        until(lambda: any("computes the same since" in message for message in messages))
        assert successor.is_ours()
        publish(work, "successor")
        found = computes.result(timeout=30)
    assert found.cached
    assert starts.read_text() == "x"
    assert successor.release()


def test_an_attempt_that_lost_its_lease_to_another_run_records_the_result_for_its_own_run(
    store: MemoryStore, messages: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its host stood still for a minute. No try of its run records it in its place."""
    starts, ends = tmp_path / "starts", tmp_path / "ends"
    work = running(training(store, made(store)), PREEMPTED, str(starts), str(ends))
    ours = attempt(work, messages)

    def compute() -> None:
        with StageRecord(store, work.plan, "train") as record:
            record.attempt = ours
            record.end(ours.compute())

    with ThreadPoolExecutor(1) as pool:
        computes = pool.submit(compute)
        until(lambda: "ready" in messages)
        other = Waiter(store, work.lease, new_lease("elsewhere", "other"))
        with monkeypatch.context() as stale:
            stale.setattr("ratchet.store.lease.STALE_S", -1.0)
            successor = until(other.take, seconds=20)
        ends.touch()
        until(lambda: any("run elsewhere computes the same since" in message for message in messages))
        publish(work, "other")
        computes.result(timeout=30)
    assert ours.lost
    assert kept(store, work.plan, "train").state == "done"
    assert successor.release()


def test_a_preempted_process_goes_on_in_the_same_attempt(
    store: MemoryStore, messages: list[str], tmp_path: Path
) -> None:
    starts, ends = tmp_path / "starts", tmp_path / "ends"
    ends.touch()
    ours = attempt(running(training(store, made(store)), PREEMPTED, str(starts), str(ends)), messages)
    with pytest.raises(Preempted):
        ours.compute()
    assert starts.read_text() == 20 * "x"
    assert messages.count("ready") == 20
    assert sum("it goes on at once" in message for message in messages) == 19


@pytest.mark.parametrize("publishes", [True, False])
def test_a_job_that_somebody_removes_has_done_its_work_if_its_result_is_published(
    store: MemoryStore, messages: list[str], *, publishes: bool
) -> None:
    """As `docker container prune` does, between the end of a stage and the look at how it ended: it used a try."""
    work = running(training(store, made(store)), "import time; print('ready', flush=True); time.sleep(60)")
    runner = ProcessRunner()

    def listen(event: Event) -> None:
        messages.append(event.message)
        if event.message == "ready":
            if publishes:
                publish(work, work.attempt)
            for handle in runner.find({}):
                runner.remove(handle)

    ours = Attempt(work, runner, on_event=listen)
    if publishes:
        outcome = ours.compute()
        assert (outcome.state, outcome.cached) == ("done", False)
    else:
        with pytest.raises(JobGone):
            ours.compute()
    assert holder_of(store, work.lease) is None


@pytest.mark.parametrize("publishes", [True, False])
@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "sys.exit(70)"])
def test_a_job_that_is_killed_at_its_exit_has_done_its_work_if_it_has_published(
    store: MemoryStore, messages: list[str], tmp_path: Path, end: str, *, publishes: bool
) -> None:
    """To publish is its last step: what ended it after that used a try, with `retries: 0` the only one."""
    go = tmp_path / "go"
    code = f"""
import os, pathlib, signal, sys, time
print("ready", flush=True)
while not pathlib.Path({str(go)!r}).exists():
    time.sleep(0.05)
{end}
"""
    work = running(training(store, made(store)), code)

    def listen(event: Event) -> None:
        messages.append(event.message)
        if event.message == "ready":
            if publishes:
                publish(work, work.attempt)
            go.touch()

    ours = Attempt(work, ProcessRunner(), on_event=listen)
    if publishes:
        outcome = ours.compute()
        assert (outcome.state, outcome.cached) == ("done", False)
    else:
        with pytest.raises(RatchetError):
            ours.compute()
    assert holder_of(store, work.lease) is None


@pytest.mark.parametrize("call", ["delete", "read"])
def test_a_job_stays_until_the_store_has_taken_how_it_ended(
    store: MemoryStore, messages: list[str], monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The store is away for the moment in which the lease is given back: another look says how it ended."""
    work = running(training(store, made(store)), "import sys; sys.exit(65)")
    runner, asked = ProcessRunner(), getattr(store, call)
    monkeypatch.setattr(ProcessRunner, "durable", True)
    ours = Attempt(work, runner, on_event=lambda event: messages.append(event.message), keep=True)

    def away(key: str, **given: Any) -> Any:
        if call == "read" or key == work.lease:
            monkeypatch.setattr(store, call, asked)
            raise NoAnswer("the store does not answer")
        return asked(key, **given)

    release = ours._release
    monkeypatch.setattr(ours, "_release", lambda hold: (monkeypatch.setattr(store, call, away), release(hold)))

    def compute() -> None:
        with StageRecord(store, work.plan, "train", again=lambda _: True) as record:
            record.attempt = ours
            record.end(ours.compute())

    with pytest.raises(NoAnswer):
        compute()
    assert kept(store, work.plan, "train").again
    assert runner.find({})
    with pytest.raises(DataRejected):
        Attempt(work, runner, on_event=print, keep=True).compute(work.attempt)
    for handle in runner.find({}):
        runner.remove(handle)
