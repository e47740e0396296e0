"""The one seam between who wants a stage run and how it is run."""

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Protocol, Self

from tasks.runners.job import Job
from tasks.runners.lines import Line

TAIL_LINES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How a job stands. exit_code: None while it runs; 128 + n if signal n ended it.

    out_of_memory: the kernel killed it for its memory (then exit_code is 137), or it said so itself as far as the
    runner can tell. A 137 without it is a kill from outside, unless the stage's last failure event says otherwise.
    """

    running: bool
    exit_code: int | None = None
    out_of_memory: bool = False


class Runner(Protocol):
    """Runs jobs. A handle names a job to its runner, and to nobody else.

    Every call raises Unavailable if what runs the jobs does not answer, ConfigurationError if a job cannot be run.
    """

    def submit(self, job: Job) -> str:
        """Start a job; its handle. Leaves nothing behind if it fails or is interrupted."""
        ...

    def status(self, handle: str) -> Status:
        """How the job stands now. A job that is gone counts as a configuration error."""
        ...

    def wait(self, handle: str, timeout_s: float | None = None) -> Status:
        """Block until the job ends, or for `timeout_s` seconds at most; then how it stands."""
        ...

    def logs(self, handle: str) -> Iterator[Line]:
        """Lines from the start, following until the job ends, in bounded memory. One follower a job."""
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
    """How a job ended. seconds: wall time from submission. tail: its last lines."""

    exit_code: int
    out_of_memory: bool
    timed_out: bool
    seconds: float
    tail: tuple[Line, ...]


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
    runner: Runner, handle: str, job: Job, on_line: Callable[[Line], None], *, started: float | None = None
) -> Ended:
    """`run_to_end` for a job that is already there, for example one found after its first caller was killed.

    started: `time.monotonic()` of its submission; now, if not given.
    """
    begin = time.monotonic() if started is None else started
    tail: deque[Line] = deque(maxlen=TAIL_LINES)
    timeout = _Timeout(runner, handle, begin + job.timeout_s - time.monotonic(), job.grace_s)
    with _sigterm_raises():
        try:
            with timeout:
                for line in runner.logs(handle):
                    tail.append(line)
                    on_line(line)
                status = runner.wait(handle)
        except BaseException:
            try:
                runner.stop(handle, job.grace_s)
            finally:
                runner.remove(handle)
            raise
        runner.remove(handle)
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
    )


class _Timeout:
    """Stops a job after a time, from a thread of its own. On leaving, it is called off, or waited for if it fired."""

    def __init__(self, runner: Runner, handle: str, seconds: float, grace_s: float) -> None:
        self.fired = False
        self.error: Exception | None = None
        self._runner, self._handle, self._grace_s = runner, handle, grace_s
        self._timer = threading.Timer(max(0.0, seconds), self._fire)
        self._timer.daemon = True

    def _fire(self) -> None:
        try:
            if self._runner.status(self._handle).running:
                self.fired = True
                self._runner.stop(self._handle, self._grace_s)
        except Exception as error:  # noqa: BLE001 - handed over to the caller's thread
            self.error = error

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._timer.cancel()
        if kind is None:
            self._timer.join()


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
