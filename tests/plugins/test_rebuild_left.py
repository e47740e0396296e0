"""A rebuild whose containers are left to the triggerer: it goes on with the trigger's event, in each version of a chain."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from airflow._shared.module_loading import import_string
from airflow.sdk.exceptions import TaskDeferred

from ratchet.contracts import left_paths, paths
from ratchet.contracts.labels import Label
from ratchet.contracts.stages import Stage
from ratchet.runners.docker import DockerRunner
from ratchet.runs import left_elsewhere
from ratchet.runs.host_follower import HostFollower
from ratchet.runs.jobs import store_label
from ratchet.store.base import Store
from ratchet.store.version_records import read_record
from ratchet_airflow import container_trigger
from ratchet_airflow.leaving import served
from ratchet_airflow.reproduction import ReproduceOperator
from ratchet_airflow.servers import alive_file
from tests.plugins.test_operators import States
from tests.plugins.test_reproduction import context
from tests.readable import readable_by_all
from tests.runs.test_warm_nights import DAYS, made_in
from tests.waiting import until

pytestmark = [pytest.mark.docker, pytest.mark.heavy, pytest.mark.xdist_group("reproduce-left")]
ALL: list[Stage] = ["features", "train", "evaluate", "refit"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """With two versions, the second of which began with the first."""
    folder = tmp_path_factory.mktemp("left")
    readable_by_all(folder)
    return made_in(folder, DAYS[:2]).store


@pytest.fixture
def store(made: Store, stage_image: str, monkeypatch: pytest.MonkeyPatch) -> Store:
    for name, value in {
        "RATCHET_STORE": made.uri, "RATCHET_RUNNER": "docker", "RATCHET_STAGE_IMAGE": stage_image,
        "RATCHET_DATA": "/nowhere", "RATCHET_INSTALLATION": "here", "RATCHET_DEFER_SECONDS": "0.2",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(container_trigger, "is_triggerer_well", lambda: True)
    monkeypatch.setattr(container_trigger, "_LEAST_S", 0.0)
    return made


def task() -> ReproduceOperator:
    return ReproduceOperator(task_id="reproduce")


def containers(store: Store) -> list[str]:
    return DockerRunner().find({Label.STORE: store_label(store.uri)})


def fired(deferred: TaskDeferred) -> dict[str, Any]:
    """What its trigger says in the triggerer, where it is another object."""
    path, given = deferred.trigger.serialize()
    trigger = import_string(path)(**given)

    async def events() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    (payload,) = asyncio.run(events())
    assert isinstance(payload, dict)
    return payload


def left(given: dict[str, Any]) -> TaskDeferred:
    """What a task is deferred with."""
    with pytest.raises(TaskDeferred) as raised:
        task().execute(given)
    return raised.value


@contextmanager
def frozen(container: str) -> Iterator[None]:
    """It neither ends nor prints during the block."""
    subprocess.run(["docker", "pause", container], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["docker", "unpause", container], check=True, capture_output=True)


def to_its_end(store: Store, given: dict[str, Any]) -> tuple[str, list[TaskDeferred]]:
    """What a task says at last, in one process after the other; and what it was deferred with."""
    hops = [left(given)]
    while len(hops) < 40:
        deferred = hops[-1]
        assert deferred.method_name == "go_on"
        assert deferred.timeout is not None
        assert len(containers(store)) == 1
        try:
            return task().go_on(given, fired(deferred), **(deferred.kwargs or {})), hops
        except TaskDeferred as again:
            hops.append(again)
    raise AssertionError("it is left without end")


def test_each_stage_of_a_chain_is_left_and_the_versions_are_bit_equal(store: Store) -> None:
    before = {entry.key for entry in store.list(paths.published("warm"))}
    states = States()
    said, hops = to_its_end(store, context(states, model="warm", version="2", chain=True))
    assert said.splitlines()[0].startswith("bit-equal: ")
    assert "its parent, version 1, was built again first: bit-equal" in said
    assert len(hops) >= 2  # more than one stage, however fast
    assert containers(store) == []
    assert {entry.key for entry in store.list(paths.published("warm"))} == before
    name = states.kept["ratchet_rebuild"][1]
    for version in ("1", "2"):
        run = f"reproduction-{name}-{version}-{read_record(store, 'warm', version).digest[:8]}.here"
        files = [paths.last(entry.key) for entry in store.list(paths.run("warm", run))]
        # Each stage was computed once.
        assert sorted(file for file in files if file.endswith(".log")) == sorted(f"{stage}.1.log" for stage in ALL)


def test_it_is_left_to_the_follower_of_its_host(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RATCHET_FOLLOWER", "host")
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(tmp_path / "alerts.jsonl"))
    monkeypatch.setattr(left_elsewhere, "LOOK_S", 0.3)
    engine, over = DockerRunner().engine, Event()
    follower = HostFollower(store, DockerRunner(), "here")

    def look() -> None:
        while not over.is_set():
            alive_file("follower").write_text(served(store.uri, "here", engine.id), encoding="utf-8")
            follower.look()
            over.wait(0.3)

    thread = Thread(target=look)
    thread.start()
    try:
        until(alive_file("follower").exists)
        said, hops = to_its_end(store, context(States(), model="warm"))
    finally:
        over.set()
        thread.join()
        follower.stop(30)
    assert said.startswith("bit-equal: ")
    assert all(deferred.trigger.serialize()[1]["left"] for deferred in hops)
    assert containers(store) == []
    assert list(store.list(left_paths.EVERY)) == []


def test_after_a_worker_that_died_the_container_is_followed_and_a_clear_ends_it(store: Store) -> None:
    states = States()
    first = left(context(states, model="warm"))
    (container,) = containers(store)
    with frozen(container):
        dies = task()
        dies.follows_itself = True  # as after a trigger that failed
        dies._begin_attempt = sys.exit  # a moment for its worker to die
        with pytest.raises(SystemExit):
            dies.execute(context(states, model="warm"))
        again = left(context(states, model="warm"))
        assert containers(store) == [container]
        asked, before = (json.loads(one.trigger.serialize()[1]["request"]) for one in (again, first))
        assert (asked["run_id"], asked["attempt"]) == (before["run_id"], before["attempt"])
    cleared = left(context(states, 9, model="warm"))
    (other,) = containers(store)
    assert other != container
    trigger = cleared.trigger
    assert isinstance(trigger, container_trigger.ContainerTrigger)
    trigger._is_deferred = lambda: False  # a person has ended it
    asyncio.run(trigger.on_kill())
    until(lambda: not containers(store), seconds=120)
