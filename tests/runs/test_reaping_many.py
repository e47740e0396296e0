"""Many orphans at once, as after the death of a worker with all of its tasks, are seen and ended in the time of one."""

import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from threading import Barrier
from typing import cast

import pytest

from ratchet.contracts import paths
from ratchet.contracts.labels import Label
from ratchet.runners.docker import DockerRunner
from ratchet.runners.runner import Engine
from ratchet.runs.reaping import Orphan, free_leases, orphans, reap_all
from ratchet.store.lease import Hold, Waiter, new_lease
from ratchet.store.memory import MemoryStore
from ratchet.store.place import Place

ENGINE = Engine("gpu-2/AB:CD", "gpu-2")
MANY = 12
STALE_S = 2.0
Given = tuple[MemoryStore, DockerRunner]


class _Engine:
    """An engine in which the containers of MANY stages have ended."""

    engine = ENGINE

    def __init__(self) -> None:
        self.removed: list[str] = []
        self._all = Barrier(MANY)

    def stop(self, handle: str, grace_s: float) -> None:
        """Each ends when all have their notice, as after a grace."""
        assert handle not in self.removed
        self._all.wait(grace_s)

    def remove(self, handle: str) -> None:
        self.removed.append(handle)

    def find(self, labels: Mapping[str, str]) -> list[str]:
        return [] if Label.FINGERPRINT in labels else [str(number) for number in range(MANY)]

    def labels(self, handle: str) -> Mapping[str, str]:
        return {
            Label.PIPELINE: "shop", Label.STAGE: "train", Label.RUN: "r", Label.ATTEMPT: "a",
            Label.FINGERPRINT: fingerprint(int(handle)),
        }  # fmt: skip


def fingerprint(number: int) -> str:
    return f"{number:064d}"


def die(hold: Hold) -> None:
    """As if its process had been killed: the beat ends, and the lease stays."""
    hold._over.set()
    hold._thread.join()


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Given:
    """Leases whose holders have died, but for the first."""
    monkeypatch.setattr("ratchet.store.lease.BEAT_S", 0.05)
    monkeypatch.setattr("ratchet.store.lease.STALE_S", STALE_S)
    monkeypatch.setattr("ratchet.runs.reaping._LOOK_S", 0.2)
    store = MemoryStore(uuid.uuid4().hex)
    for number in range(MANY):
        key = paths.lease("shop", "train", fingerprint(number))
        hold = Waiter(store, key, new_lease("r", "a"), engine=ENGINE.id).take()
        assert hold is not None
        place = Place(engine=ENGINE.id, host=ENGINE.host, sign="runs/shop/r/train-alive")
        hold.point_at("a", datetime.now(UTC), place=place)
        if number:
            die(hold)
    return store, cast("DockerRunner", _Engine())


def test_orphans(given: Given) -> None:
    began = time.monotonic()
    found = orphans(*given, lambda *_: False)
    assert time.monotonic() - began < 4 * STALE_S
    assert sorted(int(one.handle) for one in found) == list(range(1, MANY))


def test_leases_of_containers_that_are_gone(given: Given) -> None:
    store, runner = given
    began = time.monotonic()
    assert free_leases(store, runner) == (MANY - 1) * ["train of shop"]
    assert time.monotonic() - began < 4 * STALE_S
    assert [entry.key for entry in store.list(paths.leases())] == [paths.lease("shop", "train", fingerprint(0))]


def test_their_ends() -> None:
    engine = _Engine()
    found = [
        Orphan(handle=f"{number}", pipeline="shop", stage="train", run_id="r", grace_s=60) for number in range(MANY)
    ]
    reap_all(cast("DockerRunner", engine), found)
    assert sorted(map(int, engine.removed)) == list(range(MANY))
