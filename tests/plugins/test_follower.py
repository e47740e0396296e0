"""The follower of a host, a server of its own: a training that a task leaves to it, as the triggerer sees it from afar."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from ratchet.contracts import left_paths
from ratchet.contracts.errors import NoAnswer
from ratchet.contracts.request import RunPlan
from ratchet.runners.docker import DockerRunner
from ratchet.runs import left_elsewhere
from ratchet.runs.host_follower import HostFollower
from ratchet.runs.left_elsewhere import FarFollower, leave, new_place, take_back
from ratchet.runs.left_job import Why
from ratchet.runs.work import Work
from ratchet.store import lease
from ratchet.store.file import FileStore
from ratchet.store.lease import holder_of
from ratchet_airflow.leaving import follower_here, served
from tests.faults.ticking import ticking
from tests.faults.trainings import Trainings, containers, trained, trainings
from tests.runs.test_left_job import ended, hearing, left, plan_of, ticks
from tests.waiting import until

TEAM = "team"
pytestmark = [pytest.mark.docker, pytest.mark.heavy, pytest.mark.xdist_group("attempts")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, stage_image: str) -> Iterator[Trainings]:
    with trainings(tmp_path_factory.mktemp("far"), stage_image, model=ticking(0.2), rows_per_day=2000) as prepared:
        yield prepared


@pytest.fixture(autouse=True)
def looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two a second."""
    monkeypatch.setattr(left_elsewhere, "LOOK_S", 0.5)
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(tmp_path / "alerts.jsonl"))


@contextmanager
def server(made: Trainings, *, ends_with: int | None = 0) -> Iterator["subprocess.Popen[bytes]"]:
    """A follower of this host's engine, until the end of the block. ends_with: its code after SIGTERM."""
    names = {"RATCHET_STORE": made.store_uri, "RATCHET_INSTALLATION": TEAM}
    process = subprocess.Popen([sys.executable, "-m", "ratchet_airflow.follower"], env={**os.environ, **names})
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        code = process.wait(timeout=120)
    assert ends_with in {None, code}


class Task:
    """A training that its task has left, and the trigger that looks after it."""

    def __init__(self, made: Trainings, plan: RunPlan) -> None:
        self.said: list[str] = []
        self.work: Work = left(made, plan, self.said)
        here = plan.model_copy(update={"installation": TEAM})
        self.place = new_place(here, self.work.request, DockerRunner().engine)
        leave(made.store, self.place, self.work.request)
        self.over = threading.Event()
        self.far = FarFollower(
            made.store, plan, self.work.request, self.place, over=self.over, on_event=hearing(self.said)
        )


def test_a_follower_that_is_killed_and_the_next_one_follow_a_training_to_its_end(made: Trainings) -> None:
    plan = plan_of(made, "far", 1, epochs=5)  # some 45 s, so that it does not end before the second one follows it
    with ThreadPoolExecutor(1) as pool:
        with server(made, ends_with=-signal.SIGKILL) as first:
            task = Task(made, plan)
            (container,) = containers(made)
            why = pool.submit(task.far.follow)
            before = len(ticks(task.said))
            until(lambda: len(ticks(task.said)) > before + 3 or why.done(), seconds=180)
            assert follower_here() == served(made.store.uri, TEAM, DockerRunner().engine.id)
            first.kill()
        assert containers(made) == [container]
        with server(made):
            found = why.result(timeout=120)
    assert (found.text, found.again) == ("it has ended", True)
    assert ticks(task.said) == list(range(1, len(ticks(task.said)) + 1))  # none lost, none twice
    take_back(made.store, task.place, hearing(task.said))
    assert list(made.store.list(left_paths.EVERY)) == []
    outcome = ended(task.work, task.said, log=found.log)
    assert containers(made) == []
    assert holder_of(made.store, task.work.lease) is None
    assert trained(outcome).resumed_from is None
    assert outcome.log is not None
    stored = made.store.read(outcome.log).decode().splitlines()
    assert ticks(stored) == ticks(task.said)


def test_a_task_that_a_person_ends_has_its_training_save_and_end(made: Trainings) -> None:
    plan = plan_of(made, "person", 2, epochs=9)
    with server(made), ThreadPoolExecutor(1) as pool:
        task = Task(made, plan)
        why = pool.submit(task.far.follow)
        assert len(containers(made)) == 1
        task.far.end()
        assert why.result(timeout=180) == Why("a person has ended it", again=False)
        until(lambda: containers(made) == [], seconds=180)
    assert [entry.key for entry in made.store.list("checkpoints") if entry.key.endswith(".safetensors")] != []


def test_a_person_ends_it_though_the_follower_begins_again_meanwhile(made: Trainings) -> None:
    plan = plan_of(made, "again", 3, epochs=9)
    task = Task(made, plan)
    task.far.end()
    with server(made):
        until(lambda: containers(made) == [], seconds=180)
    assert left_elsewhere._read(made.store, left_paths.why(task.place)).text == "a person has ended it"


def test_without_a_follower_the_task_goes_on_by_itself(made: Trainings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "STALE_S", 2.0)
    assert follower_here() is None
    task = Task(made, plan_of(made, "alone", 4))
    assert task.far.follow() == Why("the follower of its host is silent", again=True)
    take_back(made.store, task.place, hearing(task.said))
    assert ended(task.work, task.said).state == "done"


def test_what_its_task_has_taken_back_is_followed_no_longer(made: Trainings) -> None:
    plan = plan_of(made, "back", 5)
    task = Task(made, plan)
    follower = HostFollower(made.store, DockerRunner(), TEAM)
    follower.look()

    def is_followed() -> bool:
        held = holder_of(made.store, task.work.lease)
        return held is not None and held.holder != task.work.attempt

    until(is_followed)
    take_back(made.store, task.place, hearing(task.said))
    follower.look()
    outcome = ended(task.work, task.said)
    follower.look()
    assert (outcome.state, follower._jobs) == ("done", {})
    assert list(made.store.list(task.place)) == []


def test_one_that_cannot_be_followed_is_given_back_and_holds_up_no_other(made: Trainings) -> None:
    plan = plan_of(made, "odd", 6)
    task = Task(made, plan)
    odd = left_paths.left(TEAM, DockerRunner().engine.id, "odd")
    made.store.create(left_paths.job(odd), b"{}")
    with server(made):
        until(lambda: made.store.head(left_paths.why(odd)), seconds=180)
        why = task.far.follow()
    assert "cannot be read by Ratchet" in left_elsewhere._read(made.store, left_paths.why(odd)).text
    assert why.text == "it has ended"
    take_back(made.store, odd, hearing(task.said))
    take_back(made.store, task.place, hearing(task.said))
    assert ended(task.work, task.said, log=why.log).state == "done"


def test_a_second_follower_waits_for_the_end_of_the_first(
    made: Trainings, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with server(made, ends_with=-signal.SIGKILL) as first:
        until(follower_here, seconds=180)
        with server(made):
            said = capfd.readouterr
            heard: list[str] = []
            until(lambda: heard.append("".join(said())) or "this one waits" in "".join(heard), seconds=180)
            first.kill()
            first.wait(10)
            (tmp_path / "follower-alive").unlink()
            until(follower_here, seconds=180)


def test_what_was_answered_and_not_taken_back_goes_after_days(made: Trainings) -> None:
    follower = HostFollower(made.store, DockerRunner(), "old")
    place = left_paths.left("old", DockerRunner().engine.id, "cleared")
    made.store.create(left_paths.job(place), b"{}")
    left_elsewhere.answer(made.store, place, Why("it was left", again=True))
    follower.look()
    assert len(list(made.store.list(place))) == 2
    then = time.time() - 9 * 86_400
    for key in (left_paths.why(place), left_paths.job(place)):
        file = made.store.local(key)
        assert file is not None
        os.utime(file, (then, then))
    follower.look()
    assert list(made.store.list(place)) == []


def test_a_store_that_is_away_is_waited_for(made: Trainings, monkeypatch: pytest.MonkeyPatch) -> None:
    task, asked = Task(made, plan_of(made, "away", 7)), list[str]()

    def away(_store: FileStore, prefix: str) -> Iterator[object]:
        asked.append(prefix)
        if len(asked) == 3:
            task.over.set()
        raise NoAnswer("the store does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(FileStore, "list", away)
        assert task.far.follow() == Why("it was left", again=True)
    assert asked == [task.place] * 3
    take_back(made.store, task.place, hearing(task.said))
    assert ended(task.work, task.said).state == "done"
