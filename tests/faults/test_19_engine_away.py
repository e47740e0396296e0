"""The engine does not answer at the start of a stage, in its middle or at its end: it is waited for, and 69 if too long.

Real trainings in the machine's engine, to which a way leads that the test closes.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import pytest

from ratchet.contracts.errors import Unavailable
from ratchet.contracts.exits import decide
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.runners import following
from ratchet.runners.choice import choose_runner, planned_runner
from ratchet.runners.docker import DockerRunner
from ratchet.runs.events import Event
from ratchet.runs.local_run import attempt_stage
from ratchet.runs.work import Work, settle
from ratchet.store.lease import holder_of
from tests.faults.forwarder import Forwarder, forwarded
from tests.faults.ticking import ticking
from tests.faults.trainings import Trainings, containers, trained, trainings

pytestmark = [
    pytest.mark.docker,
    pytest.mark.heavy,
    pytest.mark.xdist_group("attempts"),
]
AWAY_S = 1.5
LAST = 100
"""Not quite the last step of the training."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, stage_image: str) -> Iterator[Trainings]:
    with trainings(tmp_path_factory.mktemp("away"), stage_image, model=ticking(0.1), rows_per_day=1000) as prepared:
        yield prepared


@pytest.fixture
def engine(made: Trainings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forwarder]:
    """The way to the engine. What `made` asks at its end goes by another one."""
    there = urlsplit(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")).path
    with forwarded(("127.0.0.1", 0), there) as way:
        monkeypatch.setenv("DOCKER_HOST", "tcp://{}:{}".format(*way.here))
        yield way


def plan_of(made: Trainings, name: str) -> RunPlan:
    seed = sum(map(ord, name))  # of its own, so that no other test's result is found
    settings: dict[str, Any] = {
        "train.batch_size": 64,
        "train.epochs": 3,
        "train.seed": seed,
        "stages.train.grace": "1s",
    }
    plan = made.plan(name, **settings)
    made.prepare(plan)
    return plan


class Watched:
    """Attempts at a training, and what they said. acts: what to do at a step."""

    def __init__(self, plan: RunPlan, acts: Mapping[int, Callable[[], object]] = MappingProxyType({})) -> None:
        self.plan, self.said = plan, list[str]()
        self._acts = dict(acts)

    def run(self, name: str) -> Outcome:
        runner, _ = planned_runner(self.plan.pins.image)
        return attempt_stage(self.plan, "train", runner, name=name, on_event=self._hear)

    def _hear(self, event: Event) -> None:
        self.said.append(event.message)
        if event.message.startswith("tick ") and (act := self._acts.pop(self.ticks[-1], None)) is not None:
            act()

    @property
    def ticks(self) -> list[int]:
        return [int(line.removeprefix("tick ")) for line in self.said if line.startswith("tick ")]


def test_an_engine_that_is_away_for_a_moment_costs_no_try_and_no_step(made: Trainings, engine: Forwarder) -> None:
    plan = plan_of(made, "moments")
    away = [engine.away_for(AWAY_S)]  # at the start
    watched = Watched(plan, dict.fromkeys((5, LAST - 5), lambda: away.append(engine.away_for(AWAY_S))))
    outcome = watched.run("first")
    for one in away:
        one.join()
    assert len(away) == 3
    assert watched.ticks == list(range(1, watched.ticks[-1] + 1))
    assert (outcome.state, outcome.cached, trained(outcome).resumed_from) == ("done", False, None)
    assert containers(made) == []


def test_one_that_stays_away_is_69_each_time_and_each_retry_goes_on_with_the_same_container(
    made: Trainings, engine: Forwarder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PATIENCE_S", 1.5)
    plan = plan_of(made, "long")
    work = settle(made.store, plan, "train", "look", on_event=print)
    assert isinstance(work, Work)
    watched = Watched(plan, dict.fromkeys((5, LAST - 5), engine.away))
    engine.away()
    for attempt in ("at the start", "in the middle", "at the end"):
        with pytest.raises(Unavailable, match="the Docker engine does not answer") as failed:
            watched.run(attempt.replace(" ", "-"))
        assert decide(failed.value.code, attempt=1, attempts=3).retry
        lease = holder_of(made.store, work.lease)
        left = {None if attempt == "at the start" else ""}
        if attempt == "at the end" and work.result() is not None:  # the training was quicker, maybe by less than that
            left = {None, ""}
        assert (lease.holder if lease else None) in left
        engine.back()
    outcome = watched.run("last")
    ticks = [tick for before, tick in pairwise([0, *watched.ticks]) if tick != before]
    assert ticks == list(range(1, len(ticks) + 1))
    assert ticks[-1] >= LAST - 5
    assert (outcome.state, trained(outcome).resumed_from) == ("done", None)
    assert containers(made) == []


def test_a_run_that_was_planned_for_containers_never_becomes_processes(
    made: Trainings, engine: Forwarder, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(made, "planned")
    engine.away()
    assert isinstance(planned_runner(plan.pins.image)[0], DockerRunner)
    with pytest.raises(Unavailable, match="no Docker engine answers"):
        choose_runner(None)  # a new run is not planned for processes either
    monkeypatch.setattr(following, "PATIENCE_S", 0.2)
    with pytest.raises(Unavailable):
        Watched(plan).run("first")
