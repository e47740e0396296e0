"""A job that was left and is past its time, or ends, in an engine that is made up. Real trainings: test_left_job."""

import math
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from ratchet.contracts.errors import Interrupted
from ratchet.contracts.exits import ExitCode
from ratchet.contracts.labels import Label
from ratchet.runners import following
from ratchet.runners.engine import EngineSilent
from ratchet.runners.job import Job
from ratchet.runners.log.lines import Line
from ratchet.runners.log.position import Position
from ratchet.runners.process import ProcessRunner
from ratchet.runners.runner import Engine, Status
from ratchet.runs import left_job
from ratchet.runs.attempt import Attempt
from ratchet.runs.left_job import Follower
from ratchet.runs.reaping import free_leases
from ratchet.runs.taking import place_of
from ratchet.runs.work import Work
from ratchet.store import lease as leases
from ratchet.store.lease import Waiter, holder_of, new_lease
from ratchet.store.memory import MemoryStore
from tests.runs.recorded import training
from tests.runs.test_requests import plan
from tests.waiting import until

HERE = Engine("e", "here")
TIME_S = GRACE_S = 1.0


class Made(ProcessRunner):
    """An engine with one job, which hears its notices to stop or not. silent: between these seconds it does not answer.

    ends_s: when the job ends by itself.
    """

    durable = True
    engine: Any = HERE

    def __init__(
        self, *, deaf: bool = False, silent: tuple[float, float] = (math.inf, math.inf), ends_s: float = math.inf
    ) -> None:
        super().__init__()
        self._began, self._deaf, self._silent, self._ends_s = time.monotonic(), deaf, silent, ends_s
        self._code: int | None = None
        self.notices, self.kills = list[float](), list[float]()

    def begin(self) -> None:
        """Count its seconds from now."""
        self._began = time.monotonic()

    def _answer(self) -> float:
        now = time.monotonic() - self._began
        if self._silent[0] < now < self._silent[1]:
            raise EngineSilent("the engine does not answer")
        if self._code is None and now > self._ends_s:
            self._code = ExitCode.TRY_AGAIN
        return now

    def find(self, labels: Mapping[str, str]) -> list[str]:
        self._answer()
        return ["job"]

    def status(self, handle: str) -> Status:
        self._answer()
        return Status(running=self._code is None, exit_code=self._code)

    def logs(self, handle: str, since: Position | None = None, until: float = math.inf) -> Iterator[Line]:
        self._answer()
        if self._code is None:
            time.sleep(max(0.0, until - time.monotonic()))
        yield from ()

    def wait(self, handle: str, timeout_s: float | None = None) -> Status:
        return self.status(handle)

    def labels(self, handle: str) -> Mapping[str, str]:
        return {Label.RUN: "r"}

    def remove(self, handle: str) -> None:
        self._answer()

    def submit(self, job: Job) -> str:
        raise AssertionError("it begins again")

    def notify(self, handle: str) -> None:
        self.notices.append(self._answer())
        self._code = None if self._deaf else ExitCode.TRY_AGAIN

    def stop(self, handle: str, grace_s: float) -> None:
        self.kills.append(self._answer())
        self._code = ExitCode.OUT_OF_MEMORY


@pytest.fixture(autouse=True)
def looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many a second, and, if a test wants no other, beats that do not come."""
    monkeypatch.setattr(left_job, "LOOK_S", 0.1)
    monkeypatch.setattr(left_job, "NOTICE_AGAIN_S", 0.1)
    monkeypatch.setattr(leases, "BEAT_S", 60.0)


def followed(runner: Made, *, time_s: float = TIME_S) -> Work:
    """What an attempt has left in an engine, and a follower has seen the end of."""
    store = MemoryStore(uuid.uuid4().hex)
    limits = {"timeout": f"{time_s:.0f}s", "grace": f"{GRACE_S:.0f}s"}
    work = training(store, plan({"stages": {"train": limits}}, store=store.uri))
    hold = Waiter(store, work.lease, new_lease(work.plan.run_id, work.attempt), engine=HERE.id).take()
    assert hold is not None
    hold.point_at(work.attempt, datetime.now(UTC), place=place_of(work, HERE))
    assert hold.hand_over()
    follower = Follower(store, work.plan, work.request, runner, name="t", over=threading.Event(), on_event=print)
    runner.begin()
    assert follower.follow().text == "it has ended"
    return work


def seconds(work: Work) -> float:
    """For how long the job was followed, as the lease says."""
    lease = holder_of(work.store, work.lease)
    assert lease is not None
    return lease.seconds


def beats(work: Work) -> int:
    lease = holder_of(work.store, work.lease)
    assert lease is not None
    return lease.beat


def test_after_a_silence_of_the_engine_a_job_past_its_time_still_has_a_notice_and_its_whole_grace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also after a long one: in a DAG that is paused nobody else would stop it."""
    monkeypatch.setattr(following, "PATIENCE_S", 0.2)
    runner = Made(deaf=True, silent=(TIME_S / 2, TIME_S + 1.5 * GRACE_S))
    followed(runner)
    (killed,) = runner.kills
    assert killed - runner.notices[0] >= GRACE_S


def test_the_lease_of_a_job_that_was_stopped_says_at_once_that_its_time_was_over() -> None:
    """Its attempt may go on before the next beat, and would begin what it takes for preempted again."""
    runner = Made()
    work = followed(runner)
    assert len(runner.notices) == 1
    assert seconds(work) >= TIME_S


class Elsewhere(Made):
    """An engine that has no job."""

    engine: Any = Engine("f", "there")

    def find(self, labels: Mapping[str, str]) -> list[str]:
        return []


@pytest.mark.parametrize("deaf", [False, True])
def test_a_job_that_was_stopped_has_timed_out_on_whichever_host_its_attempt_goes_on(*, deaf: bool) -> None:
    """Also once its lease is gone: its task may go on after days, as in a DAG that was paused."""
    runner: Any = Made(deaf=deaf)
    work = followed(runner)
    assert free_leases(work.store, runner) == []  # its follower has said that it has ended
    for host in (Elsewhere(), runner):
        with pytest.raises(Interrupted, match="train took longer than 1s and was stopped"):
            Attempt(work, host, on_event=print, keep=True).compute(earlier=None if host is not runner else work.attempt)
        assert holder_of(work.store, work.lease) is None


def test_the_time_after_the_end_of_a_job_is_none_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or one that was preempted would have timed out, if its attempt goes on late, as in a DAG that is paused."""
    monkeypatch.setattr(leases, "BEAT_S", 0.05)
    work = followed(Made(ends_s=TIME_S / 4), time_s=60.0)
    counted, beaten = seconds(work), beats(work)
    until(lambda: beats(work) > beaten + 3, seconds=30)
    assert seconds(work) == counted < 60.0
