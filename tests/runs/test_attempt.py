"""Attempts at a training in real containers: found again, waited for, ended first, and reaped."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ratchet.contracts.errors import Preempted, RatchetError
from ratchet.contracts.exits import decide
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.runners.docker import DockerRunner
from ratchet.runs.attempt import Attempt
from ratchet.runs.events import Event
from ratchet.runs.local_run import attempt_stage
from ratchet.runs.outcomes import outcomes
from ratchet.runs.reaping import orphans, reap
from ratchet.runs.stage_record import StageRecord
from ratchet.runs.work import Work, settle
from ratchet.store.ending import mark_ending
from ratchet.store.opening import open_store
from tests.faults.ticking import ticking
from tests.faults.trainings import Trainings, containers, trained, trainings
from tests.waiting import until

pytestmark = [pytest.mark.docker, pytest.mark.heavy, pytest.mark.xdist_group("attempts")]
ROOT = Path(__file__).resolve().parents[2]
FOLLOWER = """
import sys
from ratchet.runners.docker import DockerRunner
from ratchet.runs.local_run import attempt_stage
from ratchet.runs.planning import load_plan

plan = load_plan(sys.argv[1], "faulty", sys.argv[2])
say = lambda event: print(event.message, flush=True)
attempt_stage(plan, "train", DockerRunner(), name="first", on_event=say)
"""
LATE = """
import signal, sys
from ratchet.runners.docker import DockerRunner
from ratchet.runs.attempt import Attempt
from ratchet.runs.planning import load_plan
from ratchet.runs.work import settle
from ratchet.store.opening import open_store

plan = load_plan(sys.argv[1], "faulty", sys.argv[2])
say = lambda event: print(event.message, flush=True)
work = settle(open_store(plan.store), plan, "train", "first", on_event=say)
attempt = Attempt(work, DockerRunner(), on_event=say)
signal.signal(signal.SIGTERM, lambda *_: (attempt.interrupt(), print("notice to stop", flush=True)))
attempt.compute()
"""
"""The same, with the signal's handler that Airflow has around a task."""
STILLBORN = f"""
import os, signal
import docker
docker.APIClient.start = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
{FOLLOWER}
"""
"""The same, killed when its container is made and not started yet."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, stage_image: str) -> Iterator[Trainings]:
    with trainings(
        tmp_path_factory.mktemp("attempts"), stage_image, model=ticking(0.05), rows_per_day=2000
    ) as prepared:
        yield prepared


def plan_of(made: Trainings, name: str, seed: int, epochs: int = 3) -> RunPlan:
    """A run up to its training; runs with one seed train the same."""
    plan = made.plan(
        name, **{"train.batch_size": 64, "train.epochs": epochs, "train.seed": seed, "stages.train.grace": "20s"}
    )
    made.prepare(plan)
    return plan


def attempt(plan: RunPlan, name: str, said: list[str], *, fresh: bool = False) -> Attempt:
    def listen(event: Event) -> None:
        said.append(event.message)

    work = settle(open_store(plan.store), plan, "train", name, on_event=listen)
    assert isinstance(work, Work)
    return Attempt(work, DockerRunner(), on_event=listen, fresh=fresh)


def execute(attempt: Attempt, *, earlier: str | None = None) -> Outcome:
    """As an orchestrator does: how it ends is recorded."""
    work = attempt.work
    with StageRecord(work.store, work.plan, "train") as record:
        record.attempt = attempt
        return record.end(attempt.compute(earlier))


def ticks(said: list[str]) -> list[int]:
    return [int(line.removeprefix("tick ")) for line in said if line.startswith("tick ")]


def follower_killed(made: Trainings, plan: RunPlan) -> list[str]:
    """What another process heard of a training that it had started, until it was killed."""
    heard: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-c", FOLLOWER, made.store.uri, plan.run_id],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            heard.append(line.rstrip("\n"))
            if heard[-1] == "tick 5":
                process.kill()
    assert "tick 5" in heard
    return heard


def test_a_killed_followers_container_is_found_and_its_log_goes_on(made: Trainings) -> None:
    plan = plan_of(made, "found", 1)
    heard = follower_killed(made, plan)
    before = containers(made)
    said: list[str] = []
    outcome = execute(attempt(plan, "second", said))
    assert len(before) == 1
    assert any("the container of attempt first is still there" in line for line in said)
    first, second = ticks(heard), ticks(said)
    if second[0] == first[-1]:  # it was killed with this line just handed on, and not yet noted
        second = second[1:]
    assert [*first, *second] == list(range(1, len(first) + len(second) + 1))
    assert trained(outcome).resumed_from is None
    assert second[-1] in ticks(list(outcome.last_lines))
    assert outcomes(made.store, "faulty", plan.run_id)["train"].last_lines == outcome.last_lines
    assert containers(made) == []


def test_the_log_of_a_container_that_ended_while_nobody_followed_it_is_read_by_the_next_try(made: Trainings) -> None:
    plan = plan_of(made, "unread", 12)
    heard = follower_killed(made, plan)
    (container,) = containers(made)
    until(lambda: not DockerRunner().status(container).running, seconds=120)
    said: list[str] = []
    outcome = attempt_stage(plan, "train", DockerRunner(), name="second", on_event=lambda it: said.append(it.message))
    assert outcome.cached
    first, second = ticks(heard), ticks(said)
    if second[0] == first[-1]:  # it was killed with this line just handed on, and not yet noted
        second = second[1:]
    assert [*first, *second] == list(range(1, len(first) + len(second) + 1))
    assert second[-1] in ticks(list(outcome.last_lines))
    assert containers(made) == []
    assert list(made.store.list("leases/faulty")) == []


def test_a_container_that_was_made_and_never_started_is_not_waited_for(made: Trainings) -> None:
    plan = plan_of(made, "stillborn", 6)
    command = [sys.executable, "-c", STILLBORN, made.store.uri, plan.run_id]
    died = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False, timeout=120)
    assert died.returncode == -signal.SIGKILL
    (left,) = containers(made)
    assert not DockerRunner().status(left).begun
    said: list[str] = []
    outcome = execute(attempt(plan, "second", said), earlier="first")
    assert "the container of an earlier attempt is ended first" in said
    assert not any("going on with it" in line for line in said)
    assert trained(outcome).resumed_from is None
    assert containers(made) == []


def test_a_fresh_attempt_ends_what_is_left_first_and_resumes_from_what_that_saved(made: Trainings) -> None:
    plan = plan_of(made, "fresh", 2)
    follower_killed(made, plan)
    said: list[str] = []
    outcome = execute(attempt(plan, "second", said, fresh=True))
    assert "the container of an earlier attempt is ended first" in said
    assert (trained(outcome).resumed_from or 0) > 0
    assert containers(made) == []


def test_of_two_runs_that_would_compute_the_same_one_waits_and_reuses(made: Trainings) -> None:
    plans = [plan_of(made, name, 3) for name in ("one", "other")]
    said: list[list[str]] = [[], []]
    with ThreadPoolExecutor(2) as pool:
        works = [pool.submit(execute, attempt(plan, f"a{at}", said[at])) for at, plan in enumerate(plans)]
        outcomes = [work.result() for work in works]
    assert sorted(outcome.cached for outcome in outcomes) == [False, True]
    assert sorted(bool(ticks(lines)) for lines in said) == [False, True]
    waited = next(lines for lines in said if not ticks(lines))
    assert any("computes the same since" in line for line in waited)


def test_an_interrupted_attempt_returns_at_once_and_the_stage_has_its_grace(made: Trainings) -> None:
    plan = plan_of(made, "interrupted", 4)
    said: list[str] = []
    going = attempt(plan, "first", said)
    failed: list[BaseException] = []

    def follow() -> None:
        try:
            execute(going)
        except BaseException as error:  # noqa: BLE001 - looked at below
            failed.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    until(lambda: ticks(said), seconds=120)
    began = time.monotonic()
    going.interrupt()
    assert time.monotonic() - began < 4
    thread.join(60)
    assert isinstance(failed[0], Preempted)
    until(lambda: containers(made) == [], seconds=60)
    outcome = execute(attempt(plan, "second", said))
    assert (trained(outcome).resumed_from or 0) > 0


def test_a_late_attempt_that_receives_a_notice_to_stop_leaves_the_container_to_its_successor(made: Trainings) -> None:
    """It is stopped; while its successor is at work it goes on, and Airflow ends it."""
    plan = plan_of(made, "late", 7, epochs=6)
    said: list[str] = []
    command = [sys.executable, "-c", LATE, made.store.uri, plan.run_id]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as late,
        ThreadPoolExecutor(1) as pool,
    ):
        assert late.stdout is not None
        for line in late.stdout:
            if line == "tick 3\n":
                break
        late.send_signal(signal.SIGSTOP)
        before = containers(made)
        work = pool.submit(execute, attempt(plan, "second", said))
        until(lambda: ticks(said), seconds=120)
        late.send_signal(signal.SIGCONT)
        late.send_signal(signal.SIGTERM)
        until(lambda: "notice to stop\n" in iter(late.stdout.readline, ""), seconds=120)
        time.sleep(2)  # Airflow gives it five seconds
        assert containers(made) == before
        late.kill()
        outcome = work.result()
    assert trained(outcome).resumed_from is None
    assert containers(made) == []


@pytest.mark.parametrize("act", ["kill", "rm"])
def test_a_container_that_is_ended_behind_its_back_is_named_and_tried_again(made: Trainings, act: str) -> None:
    plan = plan_of(made, act, 8 if act == "kill" else 9)
    said: list[str] = []
    ended: list[str] = []

    def listen(event: Event) -> None:
        said.append(event.message)
        if ticks(said) and not ended:
            ended.extend(containers(made))
            command = ["docker", "kill", *ended] if act == "kill" else ["docker", "rm", "--force", "--volumes", *ended]
            subprocess.run(command, check=True, capture_output=True)

    with pytest.raises(RatchetError, match="killed from outside" if act == "kill" else "is gone") as raised:
        attempt_stage(plan, "train", DockerRunner(), name="first", on_event=listen)
    assert len(ended) == 1
    assert decide(raised.value.code, attempt=1, attempts=3).retry
    failed = outcomes(made.store, "faulty", plan.run_id)["train"]
    assert (failed.state, failed.because) == ("failed", raised.value.cause)
    assert containers(made) == []


def test_a_container_that_is_ending_is_not_followed_again(made: Trainings) -> None:
    """The worker died after it had stopped the container: cleared, or marked failed, in the middle of its grace."""
    plan = plan_of(made, "ending", 10)
    follower_killed(made, plan)
    request = next(entry.key for entry in made.store.list("leases/faulty"))
    assert mark_ending(made.store, request, "first")
    said: list[str] = []
    outcome = execute(attempt(plan, "second", said), earlier="first")
    assert "the container of an earlier attempt is ended first" in said
    assert (trained(outcome).resumed_from or 0) > 0
    assert containers(made) == []


def test_the_reaper_ends_what_nobody_follows_and_nothing_else(made: Trainings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ratchet.store.lease.BEAT_S", 0.5)
    monkeypatch.setattr("ratchet.store.lease.STALE_S", 7.0)
    plan = plan_of(made, "reaped", 5)
    runner, store = DockerRunner(), made.store
    follower_killed(made, plan)
    assert orphans(store, runner, lambda *_: True) == []
    (orphan,) = orphans(store, runner, lambda *_: False)
    assert (orphan.pipeline, orphan.stage, orphan.run_id) == ("faulty", "train", plan.run_id)
    reap(runner, orphan)
    assert containers(made) == []
    said: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(execute, attempt(plan, "second", said))
        until(lambda: ticks(said), seconds=120)
        assert orphans(store, runner, lambda *_: False) == []
        assert (trained(work.result()).resumed_from or 0) > 0
