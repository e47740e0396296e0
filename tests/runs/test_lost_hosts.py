"""A person says that a host is gone: what ran there may begin elsewhere, with a record of who said so and why."""

import json
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ratchet.cli.main import main
from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.runners.runner import Engine
from ratchet.runs import lost_hosts
from ratchet.runs.known_hosts import hosts, mark_host
from ratchet.runs.lost_hosts import LostHost, say_gone
from ratchet.runs.taking import place_of
from ratchet.store.base import Store
from ratchet.store.lease import Waiter, holder_of, new_lease
from ratchet.store.memory import MemoryStore
from ratchet.store.opening import open_store
from ratchet.store.place import Place
from ratchet.store.sealed import unseal
from tests.runs.recorded import training
from tests.runs.test_requests import plan
from tests.waiting import until

KEY = paths.lease("shop", "train", "f" * 64)
PLACE = Place(engine="AB:CD", host="gpu-2", sign="runs/shop/run-1/train-alive")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(uuid.uuid4().hex)


def leave(store: Store) -> None:
    """A container on gpu-2 whose worker has died."""
    hold = Waiter(store, KEY, new_lease("run-1", "a"), engine=PLACE.engine).take()
    assert hold is not None
    hold.point_at("a", datetime.now(UTC), place=PLACE)
    hold._over.set()
    hold._thread.join()


def records(store: Store) -> list[LostHost]:
    found = [entry.key for entry in store.list("runs") if "host-gone" in entry.key]
    return [unseal(store.read(key), LostHost, where=key, remedy="") for key in found]


@pytest.mark.parametrize("name", ["gpu-2", "AB:CD"])
def test_its_leases_are_freed_and_the_run_keeps_who_and_why(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(lost_hosts, "QUIET_S", 0.0)
    leave(store)
    waiting = Waiter(store, KEY, new_lease("run-1", "b"), engine="another")
    assert waiting.take() is None
    assert say_gone(store, name, by="ada", because="it burned") == ["train of shop, run run-1, attempt a"]
    assert holder_of(store, KEY) is None
    hold = waiting.take()
    assert hold is not None
    hold.release()
    (said,) = records(store)
    assert (said.host, said.engine, said.attempt, said.by, said.because) == ("gpu-2", "AB:CD", "a", "ada", "it burned")


def test_a_host_whose_container_was_heard_just_now_is_not_gone(store: MemoryStore) -> None:
    leave(store)
    with pytest.raises(Unavailable, match=r"gpu-2 is not gone: train of shop, run run-1, attempt a was heard \d+s ago"):
        say_gone(store, "gpu-2", by="ada", because="it burned")
    assert holder_of(store, KEY) is not None
    assert records(store) == []


def test_a_host_is_gone_although_the_run_was_planned_again_and_computes_the_stage_on_another_one(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_hosts, "QUIET_S", 2.0)
    before = training(store, plan(store=store.uri))
    after = training(store, plan({"train.epochs": 7}, store=store.uri))
    for work, name in ((before, "gpu-1"), (after, "gpu-2")):
        hold = Waiter(store, work.lease, new_lease("r", name), engine=name).take()
        assert hold is not None
        hold.point_at(name, datetime.now(UTC), place=place_of(work, Engine(name, name)))
        hold._over.set()
        hold._thread.join()
    lease = holder_of(store, after.lease)
    assert lease is not None
    assert lease.place is not None
    sign = lease.place.sign

    def gone() -> list[str] | None:
        store.delete(sign)
        store.create(sign, b"gpu-2")  # as its container does, again and again
        with suppress(Unavailable):  # gpu-1 was heard too lately
            return say_gone(store, "gpu-1", by="ada", because="it burned")
        return None

    assert until(gone, seconds=60) == ["train of small, run r, attempt gpu-1"]
    with pytest.raises(Unavailable, match="gpu-2 is not gone"):
        say_gone(store, "gpu-2", by="ada", because="it burned")


def test_a_name_that_no_lease_has_is_answered_with_those_that_some_have(store: MemoryStore) -> None:
    with pytest.raises(ConfigurationError, match="hosts that are known: none"):
        say_gone(store, "gpu-3", by="ada", because="it burned")
    leave(store)
    with pytest.raises(ConfigurationError, match=r"no container counts as one of gpu-3; .*: gpu-2 \(AB:CD\)"):
        say_gone(store, "gpu-3", by="ada", because="it burned")


def test_a_host_without_a_container_is_gone_too_and_its_reaper_is_not_expected_until_it_is_back(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(PLACE.engine, PLACE.host)
    mark_host(store, "here", engine, 2)
    with pytest.raises(ConfigurationError, match=r"hosts that are known: gpu-2 \(AB:CD\)"):
        say_gone(store, "gpu-3", by="ada", because="it burned")
    with pytest.raises(Unavailable, match=r"gpu-2 is not gone: its reaper was heard \d+s ago"):
        say_gone(store, "gpu-2", by="ada", because="it burned")
    monkeypatch.setattr(lost_hosts, "QUIET_S", 0.0)
    (mark,) = hosts(store, "here")
    assert say_gone(store, "gpu-2", by="ada", because="it burned") == []
    assert hosts(store) == []
    assert json.loads(store.read(mark.entry.key))["gone"] == {"by": "ada", "because": "it burned"}
    mark_host(store, "here", engine, None)
    assert [(host.name, host.gpus) for host in hosts(store)] == [("gpu-2", 0)]


def test_the_verb_says_what_it_freed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = open_store((tmp_path / "s").as_uri())
    kept.prepare()
    leave(kept)
    words = ["host-gone", "gpu-2", "--because", "it burned", "--by", "ada", "--store", kept.uri]
    assert main(words) == 69
    assert "ratchet host-gone: gpu-2 is not gone" in capsys.readouterr().err
    monkeypatch.setattr(lost_hosts, "QUIET_S", 0.0)
    assert main(words) == 0
    said = "gone with gpu-2: train of shop, run run-1, attempt a; it may begin elsewhere\n"
    assert capsys.readouterr().out == f"{said}gpu-2 counts as gone, until its reaper is back\n"
    assert [record.by for record in records(kept)] == ["ada"]


@pytest.mark.parametrize(("flag", "given"), [("--by", ""), ("--because", " "), ("--because", "it\nburned")])
def test_the_verb_frees_nothing_without_a_name_and_a_reason(
    flag: str, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = open_store((tmp_path / "s").as_uri())
    kept.prepare()
    leave(kept)
    monkeypatch.setattr(lost_hosts, "QUIET_S", 0.0)
    words = {"--by": "ada", "--because": "it burned", flag: given}
    assert main(["host-gone", "gpu-2", "--store", kept.uri, *(word for pair in words.items() for word in pair)]) == 64
    assert capsys.readouterr().err.startswith(f"ratchet host-gone: {flag} is ")
    assert records(kept) == []
