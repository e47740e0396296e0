"""A training that this host is too small for: where another host is large enough, it waits for that one."""

import uuid
from typing import Any

import pytest

from ratchet.contracts.errors import Unavailable
from ratchet.runners.devices import TooFewDevices, require_devices
from ratchet.runners.process import ProcessRunner
from ratchet.runners.runner import Engine
from ratchet.runs import known_hosts
from ratchet.runs.known_hosts import hosts, mark_host
from ratchet.store.base import Store
from ratchet.store.memory import MemoryStore
from ratchet_airflow.hosts import larger_hosts_wanted

LARGE, SMALL = Engine("large/1", "large"), Engine("small/1", "small")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    """That of an installation with a small host, which is this one, and a large one."""
    monkeypatch.setenv("RATCHET_INSTALLATION", "here")
    monkeypatch.setenv("RATCHET_GPUS", "fake:0")
    store = MemoryStore(uuid.uuid4().hex)
    mark_host(store, "here", LARGE, 4)
    mark_host(store, "here", SMALL, 1)
    return store


class Small(ProcessRunner):
    """The runner of this host."""

    engine: Any = SMALL


def train(store: Store, gpus: int) -> None:
    with larger_hosts_wanted(store, Small()):
        require_devices(gpus, "train")


def test_a_host_that_has_enough_is_waited_for(store: Store) -> None:
    with pytest.raises(Unavailable, match=r"train needs 4 GPUs, and this host has 1 \(0\); large has enough; to do"):
        train(store, 4)
    train(store, 1)


def test_a_host_does_not_wait_for_itself(store: Store) -> None:
    """As where its reaper counts devices that its workers do not have."""
    mark_host(store, "here", LARGE, 0)
    mark_host(store, "here", SMALL, 4)
    with pytest.raises(TooFewDevices):
        train(store, 4)


def test_what_no_host_of_this_installation_has_is_final(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TooFewDevices, match="train needs 5 GPUs"):
        train(store, 5)
    monkeypatch.setenv("RATCHET_INSTALLATION", "there")
    with pytest.raises(TooFewDevices, match="train needs 4 GPUs"):
        train(store, 4)


def test_a_host_that_changed_or_is_long_gone_is_not_waited_for(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    mark_host(store, "here", LARGE, None)  # its driver does not answer
    with pytest.raises(Unavailable):
        train(store, 4)
    mark_host(store, "here", LARGE, 2)
    with pytest.raises(Unavailable):
        train(store, 2)
    with pytest.raises(TooFewDevices):
        train(store, 4)
    monkeypatch.setattr(known_hosts, "_COUNTS_NS", -1)
    with pytest.raises(TooFewDevices):
        train(store, 2)


def test_a_mark_that_this_release_cannot_read_holds_nothing_up_until_its_reaper_writes_it_again(store: Store) -> None:
    (large,) = (host.entry for host in hosts(store, "here") if host.name == "large")
    for mark in (b"{", b"[]", b'{"host": "large", "gpus": 4}', b'{"host": "large", "engine": "large/1", "gpus": {}}'):
        now = store.head(large.key)
        assert now is not None
        assert store.replace(large.key, mark, expected=now.etag)
        with pytest.raises(TooFewDevices):
            train(store, 4)
    mark_host(store, "here", LARGE, None)
    mark_host(store, "here", LARGE, 4)
    with pytest.raises(Unavailable):
        train(store, 4)
