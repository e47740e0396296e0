"""A lease says in which engine its job lives, and nobody takes it who does not reach that engine."""

import uuid
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from ratchet.contracts import paths
from ratchet.store import lease as leases
from ratchet.store import place as places
from ratchet.store.ending import leave_end, mark_ending
from ratchet.store.lease import Hold, Lease, Waiter, holder_of, new_lease, read
from ratchet.store.memory import MemoryStore
from ratchet.store.place import End, Place
from tests.waiting import until

KEY = paths.lease("shop", "train", "f" * 64)
SIGN = paths.kept("shop", "run-1", "train", "alive")
HERE = Place(engine="here", host="host-1", sign=SIGN)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(uuid.uuid4().hex)


def waiter(store: MemoryStore, run: str, attempt: str, engine: str | None) -> Waiter:
    return Waiter(store, KEY, new_lease(run, attempt), engine=engine)


def taken(waiting: Waiter) -> Hold:
    hold = waiting.take()
    assert hold is not None
    return hold


def stored(store: MemoryStore) -> Lease:
    found = holder_of(store, KEY)
    assert found is not None
    return found


def left(store: MemoryStore) -> None:
    """A lease whose follower has lost the engine, and given it back."""
    hold = taken(waiter(store, "run-1", "a", "here"))
    hold.point_at("a", datetime.now(UTC), place=HERE, seconds=50)
    assert hold.release(lives=True)


def test_a_job_that_may_live_keeps_its_lease_for_who_reaches_its_engine(store: MemoryStore) -> None:
    left(store)
    assert (stored(store).holder, stored(store).process, stored(store).place) == ("", None, HERE)
    for run, engine in (("run-1", "elsewhere"), ("run-2", "elsewhere"), ("run-1", None)):
        waiting = waiter(store, run, "b", engine)
        assert waiting.take() is None
        assert waiting.elsewhere == HERE
        assert waiting.holder is not None
        assert waiting.holder.attempt == "a"
    waiting = waiter(store, "run-2", "c", "here")
    hold = taken(waiting)
    now = stored(store)
    assert (now.holder, now.attempt, now.place) == ("c", "a", HERE)  # the job sees no moment that is another one's
    assert now.seconds >= 50
    assert waiting.predecessor is not None
    assert hold.release()
    assert holder_of(store, KEY) is None


def test_a_later_try_of_the_run_on_another_host_does_not_take_it_from_a_dead_holder_either(store: MemoryStore) -> None:
    hold = taken(waiter(store, "run-1", "a", "here"))
    hold.point_at("a", datetime.now(UTC), place=HERE)
    later = waiter(store, "run-1", "b", "elsewhere")
    assert later.take() is None
    assert later.elsewhere == HERE
    assert hold.is_ours()
    mark_ending(store, KEY, "a", ended=True)  # the small process that ends containers says that this one has ended
    assert taken(later).release()


def test_how_a_job_ended_stays_for_its_run_until_another_job_begins(store: MemoryStore) -> None:
    end = End(exit_code=64, host="gpu-1")
    hold = taken(waiter(store, "run-1", "a", "here"))
    hold.point_at("a", datetime.now(UTC), place=HERE)
    assert hold.hand_over(ended=True, end=end)
    found = read(store, KEY)
    assert found is not None
    assert not leave_end(store, KEY, found._replace(etag="0" * 32), end)  # it has changed meanwhile
    for name in ("b", "c"):  # the first of them dies
        waiting = waiter(store, "run-1", name, "elsewhere")
        hold = taken(waiting)
        assert waiting.predecessor is not None
        assert (waiting.predecessor.attempt, waiting.predecessor.end) == ("a", end)
        hold._over.set()
        hold._thread.join()
    assert (stored(store).attempt, stored(store).place, stored(store).end) == ("a", None, end)
    hold.point_at("c", datetime.now(UTC), place=HERE)
    assert (stored(store).attempt, stored(store).end) == ("c", None)
    assert hold.hand_over(ended=True, end=end)
    found = read(store, KEY)
    assert found is not None
    assert leave_end(store, KEY, found, end)  # without a holder
    other = taken(waiter(store, "run-2", "d", "elsewhere"))
    assert (stored(store).attempt, stored(store).end) == ("d", None)
    assert other.release()


def test_a_job_without_a_place_ends_with_its_holder_and_is_taken_anywhere(store: MemoryStore) -> None:
    hold = taken(waiter(store, "run-1", "a", None))
    hold.point_at("a", datetime.now(UTC))
    assert taken(waiter(store, "run-1", "b", "elsewhere")).release()
    assert not hold.release(lives=True)
    assert taken(waiter(store, "run-1", "c", None)).release(lives=True)
    assert holder_of(store, KEY) is None


def test_a_host_that_is_silent_for_longer_than_a_stage_may_be_cut_off_is_not_waited_for(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert places.CUT_OFF_S + 15 * 60 < places.LOST_S
    clock = [0.0]
    monkeypatch.setattr("ratchet.store.memory.time", SimpleNamespace(time_ns=lambda: int(clock[0] * 1e9)))
    left(store)
    waiting = waiter(store, "run-2", "b", "elsewhere")
    for _ in range(3):  # the job shows that it lives
        clock[0] += 0.9 * places.LOST_S
        assert waiting.take() is None
        entry = store.head(SIGN)
        store.replace(SIGN, b"a", expected=entry.etag if entry else None)
        assert waiting.take() is None
    clock[0] += 1.1 * places.LOST_S
    hold = taken(waiting)
    assert (stored(store).attempt, stored(store).place) == ("b", None)
    assert [entry.key for entry in store.list("runs")] == [SIGN]
    hold.release()


def test_a_beat_is_one_request(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "BEAT_S", 0.01)
    calls: list[str] = []

    def count(name: str) -> None:
        real = getattr(store, name)

        def call(*given: object, **named: object) -> object:
            calls.append(name)
            return real(*given, **named)

        monkeypatch.setattr(store, name, call)

    hold = taken(waiter(store, "run-1", "a", "here"))
    hold.point_at("a", datetime.now(UTC), place=HERE)
    for name in ("head", "read", "swap", "replace"):
        count(name)
    until(lambda: len(calls) > 5, seconds=20)
    hold._over.set()
    hold._thread.join()
    assert set(calls) == {"swap"}
    assert hold.release()
