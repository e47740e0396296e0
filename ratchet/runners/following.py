"""Following a job to its end: its lines, its timeout, silences of the engine, and what remains of it."""

import logging
import math
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Self, TypeVar

from ratchet.contracts.errors import Unavailable
from ratchet.contracts.exits import ExitCode
from ratchet.runners.job import Job
from ratchet.runners.log.lines import Line
from ratchet.runners.log.position import Position, PositionFile
from ratchet.runners.runner import Runner, Status

TAIL_LINES = 100
PATIENCE_S = 60.0
"""Seconds that a follower waits for an engine that does not answer."""
MOST_BREAKS = 10
"""How often a log may break off, with the engine answering in between, before a line comes."""

_PAUSE_S = 0.5
_LEAST_LEFT_S = 30.0
"""Seconds before its timeout from which on a job is not left any more."""
_LONGEST_PAUSE_S, _GROWTH = 5.0, 1.5
"""A pause between two questions is this many times the one before, up to a longest one in seconds."""
_STOPPED = frozenset({ExitCode.TRY_AGAIN, 128 + signal.SIGTERM, 128 + signal.SIGKILL})
_Answer = TypeVar("_Answer")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """How a job ended. seconds: wall time from submission. tail: its last lines. cause: as in Status."""

    exit_code: int
    out_of_memory: bool
    timed_out: bool
    seconds: float
    tail: tuple[Line, ...]
    cause: str = ""


class LeftRunning(Exception):
    """The job runs, and its follower has left it to another one."""


class Leave:
    """When a follower leaves a job that runs to another one: after `every_s` seconds, and again after so many.

    may: asked then whether it really leaves. Without arguments: never.
    """

    def __init__(self, every_s: float = math.inf, may: Callable[[], bool] = lambda: False) -> None:
        self.due = time.monotonic() + every_s
        """The `time.monotonic()` of the next question."""
        self._every_s, self._may = every_s, may

    def is_now(self, last: float) -> bool:
        """Whether to leave now. last: the `time.monotonic()` after which a job is not left any more."""
        if (now := time.monotonic()) < self.due:
            return False
        self.due = now + self._every_s
        return now < last and self._may()


def follow_to_end(
    runner: Runner,
    handle: str,
    job: Job,
    on_line: Callable[[Line], None],
    *,
    started: float | None = None,
    resume: bool = False,
    is_ours: Callable[[], bool] = lambda: True,
    keep: bool = False,
    leave: Leave | None = None,
) -> JobEnd:
    """Follow a job until it ends, and remove it, however this call ends; keep: not if it ended by itself.

    `on_line` is called for each line in the caller's thread. A job past its timeout gets SIGTERM, and SIGKILL after its
    grace. So does a job whose caller is interrupted (an exception, Ctrl-C, SIGTERM, SIGHUP); a second Ctrl-C kills at
    once.

    started: `time.monotonic()` of its submission; now, if not given. One that was stopped past its timeout, before this
    call, has timed out, too. resume: begin after the last line that an earlier follower on this machine passed to its
    `on_line`. is_ours: asked before the job is stopped or removed; a job that another follower has taken over is left
    to that one. While the runner does not answer, as an engine that restarts,
    it is asked again for PATIENCE_S seconds and the job's grace, which such an engine gives the job before it answers;
    then the job goes on, and Unavailable is raised.
    leave: when to raise LeftRunning, where the runner is durable; the job then goes on.
    """
    begin = time.monotonic() if started is None else started
    tail: deque[Line] = deque(maxlen=TAIL_LINES)
    patience_s = PATIENCE_S + job.grace_s
    left_s = begin + job.timeout_s - time.monotonic()
    last = begin + job.timeout_s - _LEAST_LEFT_S
    timeout = _Timeout(runner, handle, left_s, job.grace_s, patience_s=patience_s, is_ours=is_ours)
    with _signals_raise():
        try:
            with timeout:
                for line in _lines(runner, handle, patience_s, leave or Leave(), last, resume=resume):
                    tail.append(line)
                    on_line(line)
                status = retry_unavailable(lambda: runner.wait(handle), patience_s)
        except (LeftRunning, Unavailable):  # also where it answers again by now: who looks next finds the job
            raise
        except BaseException:
            if is_ours():
                try:
                    runner.stop(handle, job.grace_s)
                finally:
                    runner.remove(handle)
            raise
        if not keep and is_ours():
            retry_unavailable(lambda: runner.remove(handle), patience_s)
    if timeout.error is not None:
        raise timeout.error
    if status.exit_code is None:
        raise AssertionError(f"{job.name} still runs, after a wait for its end")
    return JobEnd(
        exit_code=status.exit_code,
        out_of_memory=status.out_of_memory,
        timed_out=timeout.fired or (resume and left_s <= 0 and was_stopped(status)),
        seconds=time.monotonic() - begin,
        tail=tuple(tail),
        cause=status.cause,
    )


def was_stopped(status: Status) -> bool:
    """Whether a job ended as one does that gets a notice to stop, or is killed after it."""
    return status.exit_code in _STOPPED and not status.out_of_memory and not status.cause


def _lines(
    runner: Runner, handle: str, patience_s: float, leave: Leave, last: float, *, resume: bool
) -> Iterator[Line]:
    """The lines of a job's log, through silences of what runs it. The position is kept for the next follower."""
    if not runner.durable:
        yield from runner.logs(handle)
        return
    with PositionFile(handle) as kept:
        position = kept.read() if resume else Position()
        breaks = 0
        while True:
            try:
                for line in runner.logs(handle, position, leave.due):
                    yield line
                    kept.write(position)  # the consumer is done with the line, for it asks for the next one
                    breaks = 0
                    if leave.is_now(last):
                        raise LeftRunning
                if leave.due == math.inf or not runner.status(handle).running:
                    return
                if leave.is_now(last):
                    raise LeftRunning
            except Unavailable:
                breaks += 1
                if breaks > MOST_BREAKS:
                    raise
                retry_unavailable(lambda: runner.status(handle), patience_s)


class _Timeout:
    """Stops a job after a time, from a thread of its own, whatever the thread that follows the job is busy with.

    On leaving, the timer is cancelled, or waited for if it fired.
    """

    def __init__(
        self,
        runner: Runner,
        handle: str,
        seconds: float,
        grace_s: float,
        *,
        patience_s: float,
        is_ours: Callable[[], bool],
    ) -> None:
        self.fired = False
        self.error: Exception | None = None
        self._runner, self._handle, self._grace_s, self._patience_s = runner, handle, grace_s, patience_s
        self._is_ours = is_ours
        self._timer = threading.Timer(max(0.0, seconds), self._fire)
        self._timer.daemon = True

    def _fire(self) -> None:
        try:
            retry_unavailable(self._stop, self._patience_s)
        except Exception as error:  # noqa: BLE001 - raised again in the caller's thread
            self.error = error

    def _stop(self) -> None:
        if self._is_ours() and self._runner.status(self._handle).running:
            self.fired = True
            self._runner.stop(self._handle, self._grace_s)

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._timer.cancel()
        if kind is None:
            self._timer.join()


def retry_unavailable(ask: Callable[[], _Answer], limit_s: float, of: type[Unavailable] = Unavailable) -> _Answer:
    """What `ask` returns, asked again for `limit_s` seconds while it raises Unavailable. Logs one warning.

    of: the kind of Unavailable that is waited for; what is raised at last has its class. The pauses grow, up to
    _LONGEST_PAUSE_S.
    """
    began, pause_s = None, _PAUSE_S
    while True:
        try:
            answer = ask()
        except of as error:
            now = time.monotonic()
            if limit_s <= 0:
                raise
            if began is None:
                began = now
                _log.warning("%s; retrying for at most %.0f s", error.cause, limit_s)
            if now - began > limit_s:
                said = f"{error.cause}; retried for {now - began:.0f} s"
                raise type(error)(said, remedy=error.remedy) from error
            time.sleep(min(pause_s, limit_s))
            pause_s = min(_LONGEST_PAUSE_S, pause_s * _GROWTH)
        else:
            if began is not None:
                _log.warning("it answers again after %.0f s", time.monotonic() - began)
            return answer


@contextmanager
def _signals_raise() -> Iterator[None]:
    """In the main thread, SIGTERM, and SIGHUP of a terminal that was closed, become SystemExit, so that the job ends.

    A signal that has a handler or is ignored, as by nohup, stays as it is.
    """
    ours = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) == signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread() or not ours:
        yield
        return

    def leave(signum: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + signum)

    for number in ours:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
