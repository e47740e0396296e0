"""A training that this host is too small for: where another host is large enough, it waits for that one."""

import uuid
from pathlib import Path

import pytest

from ratchet.contracts import outbox_paths
from ratchet.contracts.errors import Unavailable
from ratchet.runners.devices import TooFewDevices, require_devices
from ratchet.runners.runner import Engine
from ratchet.store.base import Store
from ratchet.store.memory import MemoryStore
from ratchet_airflow import hosts
from ratchet_airflow.hosts import larger_hosts_wanted, mark_host

LARGE = Engine("large/1", "large")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    """That of an installation with a small host and a large one. This is the small one."""
    monkeypatch.setenv("RATCHET_INSTALLATION", "here")
    store = MemoryStore(uuid.uuid4().hex)
    for engine, devices in ((LARGE, "0,1,2,3"), (Engine("small/1", "small"), "0")):
        monkeypatch.setenv("RATCHET_GPUS", f"fake:{devices}")
        mark_host(store, engine)
    return store


def train(store: Store, gpus: int) -> None:
    with larger_hosts_wanted(store):
        require_devices(gpus, "train")


def test_a_host_that_has_enough_is_waited_for(store: Store) -> None:
    with pytest.raises(Unavailable, match=r"train needs 4 GPUs, and this host has 1 \(0\); large has enough; to do"):
        train(store, 4)
    train(store, 1)


def test_what_no_host_has_is_final(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TooFewDevices, match="train needs 5 GPUs"):
        train(store, 5)
    monkeypatch.setenv("RATCHET_INSTALLATION", "there")
    with pytest.raises(TooFewDevices, match="train needs 4 GPUs"):
        train(store, 4)


def test_a_host_that_changed_or_is_long_gone_is_not_waited_for(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_GPUS", "fake:0,1")
    mark_host(store, LARGE)
    monkeypatch.setenv("RATCHET_GPUS", "fake:0")
    with pytest.raises(Unavailable):
        train(store, 2)
    with pytest.raises(TooFewDevices):
        train(store, 4)
    monkeypatch.setattr(hosts, "_COUNTS_NS", -1)
    with pytest.raises(TooFewDevices):
        train(store, 2)


def test_a_host_whose_driver_does_not_answer_still_counts_as_before(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = tmp_path / "nvidia-smi"
    driver.write_text("#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'\nexit 18\n")
    driver.chmod(0o755)
    monkeypatch.delenv("RATCHET_GPUS")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    mark = outbox_paths.host("here", LARGE.id)
    before = store.read(mark)
    mark_host(store, LARGE)
    assert store.read(mark) == before
