"""The one seam between what wants a stage run and how it is run."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ratchet.runners.job import Job
from ratchet.runners.log.lines import Line
from ratchet.runners.log.position import Position

NOTICE_AGAIN_S = 5.0
"""Seconds after which a notice is sent again: the kernel drops one that arrives before the first program is ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The state of a job. exit_code: None while it runs; 128 + n if signal n ended it.

    out_of_memory: the kernel killed it for its memory (then exit_code is 137), or its exit code reports so, as far as
    the runner can see. A 137 without it is a kill from outside, unless the stage's last failure event says otherwise.
    cause: who killed it, in words, where the runner knows. begun: False for a job that was made and not started yet; if
    the process that made it has died in between, it never starts.
    """

    running: bool
    begun: bool = True
    exit_code: int | None = None
    out_of_memory: bool = False
    cause: str = ""


class Engine(NamedTuple):
    """A Docker engine: an id that it keeps, and what it calls its host."""

    id: str
    host: str


class Runner(Protocol):
    """Runs jobs. A handle names a job to the runner that returned it, and to no other.

    Every call raises Unavailable if what runs the jobs does not answer, ConfigurationError if a job cannot be run, and
    JobGone for a handle whose job no longer exists, unless its text says otherwise.
    """

    @property
    def durable(self) -> bool:
        """Whether a job outlives the process that submitted it, so that another process may find and follow it."""
        ...

    @property
    def engine(self) -> Engine | None:
        """The engine in which the jobs live; None where they end with this process. Asked once."""
        ...

    def submit(self, job: Job) -> str:
        """Start a job; its handle. Leaves nothing behind if it fails or is interrupted."""
        ...

    def status(self, handle: str) -> Status:
        """The job's state now. Raises JobGone."""
        ...

    def wait(self, handle: str, timeout_s: float | None = None) -> Status:
        """Block until the job ends, or for `timeout_s` seconds at most; then its state."""
        ...

    def logs(self, handle: str, since: Position | None = None, until: float = math.inf) -> Iterator[Line]:
        """Lines after a position, until the job ends, in bounded memory. One follower a job.

        since: where to begin, if the runner is durable; it moves along. The begin of the log if not given. until: the
        `time.monotonic()` after which a durable runner waits for no more lines, although the job runs.
        """
        ...

    def renew(self, handle: str, secret: str, content: bytes) -> None:
        """Replace a secret of a job that runs. The job sees the old file, none for a moment, or the new one."""
        ...

    def notify(self, handle: str) -> None:
        """SIGTERM, and no waiting. Quiet if the job has ended."""
        ...

    def stop(self, handle: str, grace_s: float) -> None:
        """SIGTERM, and SIGKILL after `grace_s` seconds. Returns when the job has ended; quiet if it had."""
        ...

    def remove(self, handle: str) -> None:
        """Kill if needed, and leave no trace. Quiet if the job is gone."""
        ...

    def labels(self, handle: str) -> Mapping[str, str]:
        """The labels of a job. Raises JobGone."""
        ...

    def find(self, labels: Mapping[str, str]) -> list[str]:
        """Handles of all jobs, running or ended, that carry all these labels."""
        ...
