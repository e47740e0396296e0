"""A job that another run began, and that nobody follows any more, is followed: also by the first try of a run."""

import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ratchet.contracts.request import RunPlan
from ratchet.runners.process import ProcessRunner
from ratchet.runners.runner import Engine
from ratchet.runs import taking
from ratchet.runs.attempt import Attempt
from ratchet.runs.taking import place_of
from ratchet.runs.work import Work
from ratchet.store.lease import Waiter, holder_of, new_lease
from ratchet.store.memory import MemoryStore
from tests.runs.recorded import publish, training
from tests.runs.test_requests import plan
from tests.waiting import until

HERE = Engine("gpu-1/AB:CD", "gpu-1")
WAITS = """
import pathlib, sys, time
pathlib.Path(sys.argv[1]).write_text("begun")
while not pathlib.Path(sys.argv[2]).exists():
    time.sleep(0.01)
"""


class DurableRunner(ProcessRunner):
    """Processes whose jobs count as those of an engine, which outlive their follower."""

    durable = True
    engine: Any = HERE


class Night:
    """A training that the run `first` began here, and whose follower has given the lease back."""

    def __init__(self, folder: Path) -> None:
        self.store, self.runner = MemoryStore(uuid.uuid4().hex), DurableRunner()
        self.begun, self.ends, self.said = folder / "begun", folder / "ends", list[str]()
        self.first = self.work(plan(store=self.store.uri).model_copy(update={"run_id": "first"}), "a")
        hold = Waiter(self.store, self.first.lease, new_lease("first", "a"), engine=HERE.id).take()
        assert hold is not None
        hold.point_at("a", datetime.now(UTC), place=place_of(self.first, HERE))
        self.handle = self.runner.submit(self.first.job)
        until(self.begun.exists, seconds=20)
        assert hold.release(lives=True)

    def work(self, made: RunPlan, attempt: str) -> Work:
        work = training(self.store, made, attempt)
        command = (sys.executable, "-I", "-S", "-c", WAITS, str(self.begun), str(self.ends))
        work.__dict__["job"] = replace(work.job, command=command)
        return work

    def attempt(self, run_id: str) -> Attempt:
        """The first try of a run, or the first after a clear."""
        work = self.work(self.first.plan.model_copy(update={"run_id": run_id}), "b")
        return Attempt(work, self.runner, on_event=lambda it: self.said.append(it.message), fresh=True, keep=True)


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    made = Night(tmp_path)
    yield made
    for handle in made.runner.find({}):
        made.runner.remove(handle)


def test_the_first_try_of_another_run_goes_on_with_it(night: Night) -> None:
    with ThreadPoolExecutor(1) as pool:
        computes = pool.submit(night.attempt("second").compute)
        until(lambda: night.said, seconds=20)
        publish(night.first, "a")
        night.ends.touch()
        found = computes.result(timeout=30)
    assert found.result is not None
    assert night.said == ["the container of attempt a is still there; going on with it"]
    assert found.result.attempt == "a"
    assert holder_of(night.store, night.first.lease) is None


def test_after_a_clear_of_its_own_run_it_is_ended_first(night: Night) -> None:
    with ThreadPoolExecutor(1) as pool:
        computes = pool.submit(night.attempt("first").compute)
        until(lambda: night.said and night.handle not in night.runner.find({}), seconds=20)
        publish(night.first, "b")
        night.ends.touch()
        assert computes.result(timeout=30).result is not None
    assert night.said == ["the container of an earlier attempt is ended first"]


def test_who_waits_for_another_run_for_long_looks_less_often(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, looks, head = [0.0], list[float](), night.store.head

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        time.sleep(0.001)

    def look(key: str) -> Any:
        looks.extend([clock[0]] if key == night.first.lease else [])
        return head(key)

    monkeypatch.setattr(taking, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))

    hold = Waiter(night.store, night.first.lease, new_lease("first", "a"), engine=HERE.id).take()
    assert hold is not None
    monkeypatch.setattr(night.store, "head", look)
    with ThreadPoolExecutor(1) as pool:
        computes = pool.submit(night.attempt("second").compute)
        until(lambda: clock[0] > 2 * taking._SOON_S, seconds=20)
        publish(night.first, "a")
        assert computes.result(timeout=30).cached
    early, later = ([at for at in looks if (at > taking._SOON_S) == is_later] for is_later in (False, True))
    assert max(after - before for before, after in pairwise(early)) < 1
    assert min(after - before for before, after in pairwise(later)) > 2
    assert hold.release()
