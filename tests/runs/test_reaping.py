"""Which real containers are orphans, and their end. That of a real training is in test_attempt."""

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from ratchet.contracts import paths
from ratchet.runners.docker import DockerRunner
from ratchet.runners.job import Job
from ratchet.runs.jobs import store_label
from ratchet.runs.reaping import free_leases, orphans, reap
from ratchet.store.lease import Hold, Waiter, holder_of, new_lease
from ratchet.store.memory import MemoryStore
from ratchet.store.place import Place

pytestmark = pytest.mark.docker
SAVES = """if 1:
    import signal, sys
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
    print("ready", flush=True)
    while True:
        signal.pause()
"""
LEASE = paths.lease("shop", "train", "f" * 64)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(uuid.uuid4().hex)


@pytest.fixture
def start(store: MemoryStore, stage_image: str) -> Iterator[Callable[..., str]]:
    """Starts a stage's container, of this store or another; it is ready when this returns."""
    runner, test = DockerRunner(), uuid.uuid4().hex

    def make(*, store_uri: str = store.uri) -> str:
        labels = {
            "ratchet.test": "1", "ratchet.test.id": test, "ratchet.store": store_label(store_uri), "ratchet.run": "r",
            "ratchet.pipeline": "shop", "ratchet.stage": "train", "ratchet.attempt": "a", "ratchet.grace": "20",
            "ratchet.fingerprint": "f" * 64,
        }  # fmt: skip
        command = ("python", "-I", "-S", "-c", SAVES)
        handle = runner.submit(Job(name="job", request=b"", image=stage_image, command=command, labels=labels))
        assert next(iter(runner.logs(handle))).text == "ready"
        return handle

    yield make
    for handle in runner.find({"ratchet.test.id": test}):
        runner.remove(handle)


def test_a_container_of_a_run_that_goes_on_is_no_orphan_and_one_of_a_run_that_ended_is(
    store: MemoryStore, start: Callable[..., str]
) -> None:
    handle, asked = start(), []

    def is_alive(*stage_of_run: str) -> bool:
        asked.append(stage_of_run)
        return len(asked) == 1

    assert orphans(store, DockerRunner(), is_alive) == []
    (orphan,) = orphans(store, DockerRunner(), is_alive)
    assert asked == 2 * [("shop", "r", "train")]
    assert (orphan.handle, orphan.pipeline, orphan.stage, orphan.run_id) == (handle, "shop", "train", "r")
    assert orphan.grace_s == 20


def test_a_container_of_another_store_is_not_looked_at(store: MemoryStore, start: Callable[..., str]) -> None:
    start(store_uri="mem://another")
    assert orphans(store, DockerRunner(), lambda *_: False) == []


def test_a_container_is_an_orphan_once_its_lease_has_no_beat(
    store: MemoryStore, start: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratchet.store.lease.BEAT_S", 0.05)
    monkeypatch.setattr("ratchet.store.lease.STALE_S", 3.0)
    start()
    hold = Waiter(store, LEASE, new_lease("r", "a")).take()
    assert hold is not None
    assert orphans(store, DockerRunner(), lambda *_: False) == []
    hold._over.set()  # as if its process had been killed: the beat ends, and the lease stays
    hold._thread.join()
    assert len(orphans(store, DockerRunner(), lambda *_: False)) == 1


def test_a_lease_that_names_another_attempt_keeps_no_container_alive(
    store: MemoryStore, start: Callable[..., str]
) -> None:
    start()
    hold = Waiter(store, LEASE, new_lease("r", "another")).take()
    assert hold is not None
    assert len(orphans(store, DockerRunner(), lambda *_: False)) == 1
    hold.release()


def test_a_reaped_container_gets_its_notice_and_is_removed(store: MemoryStore, start: Callable[..., str]) -> None:
    handle, runner = start(), DockerRunner()
    (orphan,) = orphans(store, runner, lambda *_: False)
    reap(runner, orphan)
    assert handle not in runner.find({"ratchet.store": store_label(store.uri)})
    assert orphans(store, runner, lambda *_: False) == []


def test_the_lease_of_a_container_of_this_engine_is_freed_once_that_is_gone_and_nobody_holds_it(
    store: MemoryStore, start: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratchet.store.lease.BEAT_S", 0.05)
    monkeypatch.setattr("ratchet.store.lease.STALE_S", 1.0)
    handle, runner = start(), DockerRunner()

    def lease(engine: str) -> Hold:
        hold = Waiter(store, LEASE, new_lease("r", "a"), engine=engine).take()
        assert hold is not None
        hold.point_at("a", datetime.now(UTC), place=Place(engine=engine, host="h", sign="runs/shop/r/train-alive"))
        return hold

    lease(runner.engine.id).release(lives=True)
    assert free_leases(store, runner) == []  # its container runs
    runner.stop(handle, 20)
    hold = lease(runner.engine.id)
    assert free_leases(store, runner) == []  # it is followed: for why it ended
    hold.release(lives=True)
    assert free_leases(store, runner) == ["train of shop"]
    free = holder_of(store, LEASE)
    assert free is not None
    assert (free.holder, free.place, free.end and free.end.exit_code) == ("", None, 75)
    runner.remove(handle)
    lease(runner.engine.id).release(lives=True)
    assert free_leases(store, runner) == ["train of shop"]
    assert holder_of(store, LEASE) is None  # nobody knows how it ended
    lease("another").release(lives=True)
    assert free_leases(store, runner) == []  # only that engine knows
