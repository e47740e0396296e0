"""The one seam between who wants a stage run and how it is run."""

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

from ratchet.contracts.errors import Unavailable
from ratchet.runners.job import Job
from ratchet.runners.log.entries import Position
from ratchet.runners.log.lines import Line
from ratchet.runners.log.position import PositionFile
from ratchet.runners.patience import patiently
from ratchet.runners.timeout import Timeout

TAIL_LINES = 100
PATIENCE_S = 60.0
"""Seconds that a follower waits for an engine that does not answer."""
MOST_BREAKS = 10
"""How often a log may break off, with the engine answering in between, before a line comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How a job stands. exit_code: None while it runs; 128 + n if signal n ended it.

    out_of_memory: the kernel killed it for its memory (then exit_code is 137), or it said so itself as far as the
    runner can tell. A 137 without it is a kill from outside, unless the stage's last failure event says otherwise.
    cause: who killed it, in words, where the runner knows. begun: False for a job that was made and not started yet; if
    whoever made it has died in between, it never will be.
    """

    running: bool
    begun: bool = True
    exit_code: int | None = None
    out_of_memory: bool = False
    cause: str = ""


class Runner(Protocol):
    """Runs jobs. A handle names a job to its runner, and to nobody else.

    Every call raises Unavailable if what runs the jobs does not answer, ConfigurationError if a job cannot be run, and
    JobGone for a handle whose job is not there any more, unless it says otherwise.
    """

    @property
    def durable(self) -> bool:
        """Whether a job outlives the process that submitted it, so that another one may find it and go on with it."""
        ...

    def submit(self, job: Job) -> str:
        """Start a job; its handle. Leaves nothing behind if it fails or is interrupted."""
        ...

    def status(self, handle: str) -> Status:
        """How the job stands now. Raises JobGone."""
        ...

    def wait(self, handle: str, timeout_s: float | None = None) -> Status:
        """Block until the job ends, or for `timeout_s` seconds at most; then how it stands."""
        ...

    def logs(self, handle: str, since: Position | None = None) -> Iterator[Line]:
        """Lines from a position on, following until the job ends, in bounded memory. One follower a job.

        since: where to begin, if the runner is durable; it moves along. The log's begin if not given.
        """
        ...

    def notify(self, handle: str) -> None:
        """SIGTERM, and no waiting. Quiet if the job has ended."""
        ...

    def stop(self, handle: str, grace_s: float) -> None:
        """SIGTERM, and SIGKILL after `grace_s` seconds. Returns when the job has ended; quiet if it had."""
        ...

    def remove(self, handle: str) -> None:
        """Kill if needed, and leave no trace. Quiet if it is gone."""
        ...

    def find(self, labels: Mapping[str, str]) -> list[str]:
        """Handles of all jobs, running or ended, that carry all these labels."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a job ended. seconds: wall time from submission. tail: its last lines. cause: as in Status."""

    exit_code: int
    out_of_memory: bool
    timed_out: bool
    seconds: float
    tail: tuple[Line, ...]
    cause: str = ""


def run_to_end(runner: Runner, job: Job, on_line: Callable[[Line], None]) -> Ended:
    """Run a job and leave nothing of it behind, however this call ends.

    `on_line` is called for each line in the caller's thread. A job past its timeout is told to stop, and killed after
    its grace. So is one whose caller is interrupted (an exception, Ctrl-C, SIGTERM); a second Ctrl-C kills at once.
    """
    with _sigterm_raises():
        started = time.monotonic()
        handle = runner.submit(job)
        return follow_to_end(runner, handle, job, on_line, started=started)


def follow_to_end(
    runner: Runner,
    handle: str,
    job: Job,
    on_line: Callable[[Line], None],
    *,
    started: float | None = None,
    resume: bool = False,
    is_ours: Callable[[], bool] = lambda: True,
) -> Ended:
    """`run_to_end` for a job that is already there, for example one found after its first caller was killed.

    started: `time.monotonic()` of its submission; now, if not given. resume: begin after the last line that an earlier
    follower on this machine handed to its `on_line`. is_ours: asked before the job is stopped or removed; what another
    has taken over is left to it. A runner that is silent, as an engine that restarts, is waited for: PATIENCE_S seconds
    and the job's grace, which such an engine gives it before it answers.
    """
    begin = time.monotonic() if started is None else started
    tail: deque[Line] = deque(maxlen=TAIL_LINES)
    patience_s = PATIENCE_S + job.grace_s
    left_s = begin + job.timeout_s - time.monotonic()
    timeout = Timeout(runner, handle, left_s, job.grace_s, patience_s=patience_s, is_ours=is_ours)
    with _sigterm_raises():
        try:
            with timeout:
                for line in _lines(runner, handle, patience_s, resume=resume):
                    tail.append(line)
                    on_line(line)
                status = patiently(lambda: runner.wait(handle), patience_s)
        except BaseException:
            if is_ours():
                try:
                    runner.stop(handle, job.grace_s)
                finally:
                    runner.remove(handle)
            raise
        if is_ours():
            patiently(lambda: runner.remove(handle), patience_s)
    if timeout.error is not None:
        raise timeout.error
    if status.exit_code is None:
        raise AssertionError(f"{job.name}: waited for, and still running")
    return Ended(
        exit_code=status.exit_code,
        out_of_memory=status.out_of_memory,
        timed_out=timeout.fired,
        seconds=time.monotonic() - begin,
        tail=tuple(tail),
        cause=status.cause,
    )


def _lines(runner: Runner, handle: str, patience_s: float, *, resume: bool) -> Iterator[Line]:
    """The lines of a job's log, each once, through silences of what runs it; how far is kept for who may go on."""
    if not runner.durable:
        yield from runner.logs(handle)
        return
    with PositionFile(handle) as kept:
        position = kept.read() if resume else Position()
        breaks = 0
        while True:
            try:
                for line in runner.logs(handle, position):
                    yield line
                    kept.write(position)  # the consumer is done with it, for it asks for the next one
                    breaks = 0
            except Unavailable:
                breaks += 1
                if breaks > MOST_BREAKS:
                    raise
                patiently(lambda: runner.status(handle), patience_s)
            else:
                return


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """In the main thread, and where nobody else handles it, SIGTERM becomes SystemExit, so that cleaning up happens."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def leave(signum: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + signum)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
