"""A stage shows that it lives while its lease names it, and stops once the lease names another attempt."""

import io
import signal
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from types import FrameType

import pytest

from ratchet.contracts.errors import Unavailable
from ratchet.runtime import fence
from ratchet.runtime.fence import fenced
from ratchet.runtime.logs import StageLog
from ratchet.store.lease import Hold, Waiter, new_lease
from ratchet.store.memory import MemoryStore
from ratchet.store.place import CUT_OFF_S, LOST_S, Place
from tests.runs.recorded import training
from tests.runs.test_requests import plan
from tests.waiting import until

SIGN = "runs/shop/r/train-alive"


class Watched:
    """A training of attempt `a` in this process, and the lease of its work."""

    def __init__(self, grace: str = "1s") -> None:
        self.store = MemoryStore(uuid.uuid4().hex)
        self.work = training(self.store, plan({"stages.train.grace": grace}, store=self.store.uri))
        self.said, self.ends, self.noticed = io.StringIO(), list[int](), threading.Event()
        self.fence = fenced(self.store, self.work.request, StageLog("train", self.said), end=self.ends.append)

    def hold(self, attempt: str) -> Hold:
        """Let an attempt have the lease, for a job of its own."""
        hold = Waiter(self.store, self.work.lease, new_lease("r", attempt), engine="e").take()
        assert hold is not None
        hold.point_at(attempt, datetime.now(UTC), place=Place(engine="e", host="h", sign=SIGN))
        return hold

    def signs(self) -> str:
        """What changes with each sign of life."""
        entry = self.store.head(SIGN)
        return entry.etag if entry else ""


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    monkeypatch.setattr(fence, "LOOK_S", 0.02)
    made = Watched()

    def notice(_number: int, _frame: FrameType | None) -> None:
        made.noticed.set()

    before = signal.signal(signal.SIGTERM, notice)
    yield made
    signal.signal(signal.SIGTERM, before)


def test_it_shows_that_it_lives_until_another_attempt_replaces_it(watched: Watched) -> None:
    first = watched.hold("a")
    with watched.fence:
        sign = until(watched.signs, seconds=20)
        until(lambda: watched.signs() != sign, seconds=20)
        assert not watched.noticed.is_set()
        second = watched.hold("b")
        until(watched.noticed.is_set, seconds=20)
        until(lambda: watched.ends, seconds=20)  # it did not end in its grace
    assert watched.ends == [75]
    assert "attempt b has replaced this one, a: train stops" in watched.said.getvalue()
    assert (first.release(), second.release()) == (False, True)


def test_one_that_hears_the_notice_ends_by_itself(watched: Watched) -> None:
    patient = Watched(grace="1m")
    hold = patient.hold("b")
    with patient.fence:
        until(watched.noticed.is_set, seconds=20)
    assert patient.ends == []
    hold.release()


def test_one_without_a_lease_or_with_a_damaged_one_goes_on(watched: Watched) -> None:
    with watched.fence:
        watched.store.create(watched.work.lease, b"{")
        assert not watched.noticed.wait(0.3)
    assert watched.signs() == ""


def test_one_that_does_not_reach_the_store_for_long_stops(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "CUT_OFF_S", 1.0)
    hold, head = watched.hold("a"), watched.store.head
    away, clock, looks = threading.Event(), [0.0], list[float]()
    monkeypatch.setattr(fence, "_now", lambda: clock[0])

    def answers(key: str) -> object:
        if key == watched.work.lease:
            looks.append(clock[0])
        if away.is_set():
            raise Unavailable("the store is away")
        return head(key)

    def at(seconds: float) -> None:
        """Let it be so late, until it has looked."""
        clock[0], before = seconds, len(looks)
        until(lambda: len(looks) > before + 1, seconds=20)

    monkeypatch.setattr(watched.store, "head", answers)
    with watched.fence:
        until(watched.signs, seconds=20)
        away.set()
        at(0.9)
        assert not watched.noticed.is_set()
        away.clear()
        at(0.9)
        away.set()
        at(1.8)
        assert not watched.noticed.is_set()  # it counts from when the store was reached last
        clock[0] = 10.0
        until(watched.noticed.is_set, seconds=20)
    away.clear()
    assert "the store was out of reach for 1s: train stops" in watched.said.getvalue()
    hold.release()


@pytest.mark.usefixtures("watched")
def test_one_that_does_not_reach_the_store_has_ended_before_another_host_begins_whatever_its_grace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert CUT_OFF_S + 10 * 60 + fence.LAST_S < LOST_S
    monkeypatch.setattr(fence, "CUT_OFF_S", 0.1)
    monkeypatch.setattr(fence, "LAST_S", 0.5)
    patient = Watched(grace="2h")

    def away(_key: str) -> object:
        raise Unavailable("the store is away")

    monkeypatch.setattr(patient.store, "head", away)
    with patient.fence:
        until(lambda: patient.ends, seconds=20)
    assert patient.ends == [75]
