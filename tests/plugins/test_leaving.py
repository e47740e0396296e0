"""To whom a task leaves its container, what it remembers of that, and how it takes it back."""

import uuid
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ratchet.contracts import left_paths
from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.runners.devices import TooFewDevices
from ratchet.runners.runner import Engine
from ratchet.runs.events import Event
from ratchet.runs.passed_lines import PassedLines
from ratchet.store.memory import MemoryStore
from ratchet_airflow import container_trigger
from ratchet_airflow.leaving import left_to, served, take_back_left, who_is_away
from ratchet_airflow.reproduction import ReproduceOperator
from ratchet_airflow.servers import alive_file
from tests.runs.recorded import training
from tests.runs.test_requests import plan

HERE = Engine("here/1", "here")
RUNNER = cast("Any", SimpleNamespace(engine=HERE))


class States(dict[str, Any]):
    """Airflow's state of a task."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value

    def delete(self, key: str) -> None:
        del self[key]


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RATCHET_FOLLOWER", "host")
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(tmp_path / "alerts.jsonl"))
    monkeypatch.setattr(container_trigger, "is_triggerer_well", lambda: True)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(uuid.uuid4().hex)


def test_a_container_is_left_to_a_follower_that_looks_where_the_task_leaves_it(store: MemoryStore) -> None:
    work = training(store, plan({}, store=store.uri))
    assert who_is_away(work, RUNNER) == ["the follower of this host is not there"]
    ours = served(store.uri, work.plan.installation, HERE.id)
    for said in (
        served("s3://other", work.plan.installation, HERE.id),
        served(store.uri, "other", HERE.id),
        served(store.uri, work.plan.installation, "other/1"),
    ):
        alive_file("follower").write_text(said, encoding="utf-8")
        assert who_is_away(work, RUNNER) == ["the follower of this host has another store, engine or installation"]
    alive_file("follower").write_text(ours, encoding="utf-8")
    assert who_is_away(work, RUNNER) == []


def test_whatever_goes_on_takes_back_what_was_left(store: MemoryStore) -> None:
    """Also where the trigger failed, and Airflow gives the task no event."""
    work, states, heard = training(store, plan({}, store=store.uri)), States(), list[Event]()
    who, left = left_to(work, RUNNER, work.attempt, states)
    assert who == "the follower of this host"
    assert set(left) == {"store", "request", "left"}
    place = left["left"]
    assert place is not None
    assert [entry.key for entry in store.list(place)] == [left_paths.job(place)]
    lines = PassedLines(store, place)
    lines.hear(Event(name="info", level="info", message="unread"))
    lines.look(0)
    take_back_left(store, work.plan.installation, RUNNER, states, heard.append)
    assert [event.message for event in heard] == ["unread"]
    assert (list(store.list(place)), states) == ([], {})
    take_back_left(store, work.plan.installation, RUNNER, states, heard.append)  # once
    take_back_left(store, work.plan.installation, RUNNER, None, heard.append)


def test_on_another_host_the_follower_keeps_it(store: MemoryStore) -> None:
    """As where a host was away for a minute: nobody else sees its container, stops it in time, or gives it new keys."""
    work, states, heard = training(store, plan({}, store=store.uri)), States(), list[Event]()
    _, left = left_to(work, RUNNER, work.attempt, states)
    place = left["left"]
    assert place is not None
    kept, there = dict(states), cast("Any", SimpleNamespace(engine=Engine("there/1", "there")))
    take_back_left(store, work.plan.installation, there, states, heard.append)
    assert [entry.key for entry in store.list(place)] == [left_paths.job(place)]
    take_back_left(store, work.plan.installation, there, states, heard.append, ends=True)  # a person has cleared it
    keys = {entry.key for entry in store.list(place)}
    assert keys == {left_paths.job(place), left_paths.end(place)}
    assert states == kept
    take_back_left(store, work.plan.installation, RUNNER, states, heard.append)
    assert (list(store.list(place)), states) == ([], {})


def test_a_rebuild_that_is_cleared_ends_what_another_host_follows_before_the_next_one_has_a_name(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outage or a kill right after that leaves a task that knows of no clear: nobody would end the container."""
    monkeypatch.setenv("RATCHET_INSTALLATION", "ours")
    work, states = training(store, plan({}, store=store.uri)), States(ratchet_rebuild=[1, "before"])
    _, left = left_to(replace(work, plan=work.plan.model_copy(update={"installation": "ours"})), RUNNER, "a", states)
    there = cast("Any", SimpleNamespace(engine=Engine("there/1", "there"), find=lambda _: []))
    asked: Any = {"task_state_store": states, "ti": SimpleNamespace(max_tries=1)}
    assert ReproduceOperator(task_id="reproduce")._name(asked, store, there) == "before"
    assert store.head(left_paths.end(left["left"])) is None
    asked["ti"].max_tries = 3
    assert ReproduceOperator(task_id="reproduce")._name(asked, store, there) != "before"
    assert store.head(left_paths.end(left["left"])) is not None


def test_what_a_rebuild_has_computed_stays_while_it_waits_for_a_larger_host() -> None:
    asked: Any = {"task_state_store": States(), "ti": SimpleNamespace(try_number=1, max_tries=1)}
    task = ReproduceOperator(task_id="reproduce")
    assert task._comes_again(asked, TooFewDevices("1 GPU, and this host has none", remedy="-", wanted=1))
    assert task._comes_again(asked, Unavailable("the store is away"))
    assert not task._comes_again(asked, ConfigurationError("a setting"))


def test_without_a_follower_of_the_host_it_is_left_to_the_triggerer(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RATCHET_FOLLOWER")
    states, work = States(), training(store, plan({}, store=store.uri))
    assert who_is_away(work, RUNNER) == []
    who, left = left_to(work, RUNNER, work.attempt, states)
    assert (who, left["left"], states) == ("the triggerer", None, {})
    assert list(store.list(left_paths.EVERY)) == []
