"""A job that was left and is past its time, in an engine that is made up. Real trainings: test_left_job."""

import math
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from ratchet.contracts.exits import ExitCode
from ratchet.runners.engine import EngineSilent
from ratchet.runners.log.lines import Line
from ratchet.runners.log.position import Position
from ratchet.runners.process import ProcessRunner
from ratchet.runners.runner import Engine, Status
from ratchet.runs import left_job
from ratchet.runs.left_job import Follower
from ratchet.runs.taking import place_of
from ratchet.store.lease import Waiter, new_lease
from ratchet.store.memory import MemoryStore
from tests.runs.recorded import training
from tests.runs.test_requests import plan

HERE = Engine("e", "here")
TIME_S = GRACE_S = 1.0


class Made(ProcessRunner):
    """An engine with one job that hears no notice to stop. silent: between these seconds it does not answer."""

    durable = True
    engine: Any = HERE

    def __init__(self, *, silent: tuple[float, float]) -> None:
        super().__init__()
        self._began, self._silent = time.monotonic(), silent
        self._code: int | None = None
        self.notices, self.kills = list[float](), list[float]()

    def _answer(self) -> float:
        now = time.monotonic() - self._began
        if self._silent[0] < now < self._silent[1]:
            raise EngineSilent("the engine does not answer")
        return now

    def find(self, labels: Mapping[str, str]) -> list[str]:
        self._answer()
        return ["job"]

    def status(self, handle: str) -> Status:
        self._answer()
        return Status(running=self._code is None, exit_code=self._code)

    def logs(self, handle: str, since: Position | None = None, until: float = math.inf) -> Iterator[Line]:
        self._answer()
        time.sleep(max(0.0, until - time.monotonic()))
        yield from ()

    def notify(self, handle: str) -> None:
        self.notices.append(self._answer())

    def stop(self, handle: str, grace_s: float) -> None:
        self.kills.append(self._answer())
        self._code = ExitCode.OUT_OF_MEMORY


@pytest.fixture(autouse=True)
def looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many a second."""
    monkeypatch.setattr(left_job, "LOOK_S", 0.1)
    monkeypatch.setattr(left_job, "NOTICE_AGAIN_S", 0.1)


def followed(runner: Made) -> None:
    """Follow what an attempt has left in an engine, to its end."""
    store = MemoryStore(uuid.uuid4().hex)
    limits = {"timeout": f"{TIME_S:.0f}s", "grace": f"{GRACE_S:.0f}s"}
    work = training(store, plan({"stages": {"train": limits}}, store=store.uri))
    hold = Waiter(store, work.lease, new_lease(work.plan.run_id, work.attempt), engine=HERE.id).take()
    assert hold is not None
    hold.point_at(work.attempt, datetime.now(UTC), place=place_of(work, HERE))
    assert hold.hand_over()
    follower = Follower(store, work.plan, work.request, runner, name="t", over=threading.Event(), on_event=print)
    assert follower.follow().text == "it has ended"


def test_after_a_silence_of_the_engine_a_job_past_its_time_still_has_a_notice_and_its_whole_grace() -> None:
    runner = Made(silent=(TIME_S / 2, TIME_S + 1.5 * GRACE_S))
    followed(runner)
    (killed,) = runner.kills
    assert killed - runner.notices[0] >= GRACE_S
