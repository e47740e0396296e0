"""The job that an attempt follows: a container or a process that computes some work, under our lease."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ratchet.contracts.errors import JobGone
from ratchet.runners.detached import end_later
from ratchet.runners.following import JobEnd, follow_to_end
from ratchet.runners.log.lines import Line
from ratchet.runners.runner import Runner
from ratchet.runs.try_log import TryLog
from ratchet.runs.work import Work
from ratchet.store.lease import Hold


@dataclass(frozen=True, kw_only=True)
class StageJob:
    """A job that computes some work: started, or found again.

    hold: our lease. found: whether an earlier attempt started it. since: when the stage's time began, for that attempt
    or for this one. log: what it prints.
    """

    work: Work
    runner: Runner
    hold: Hold
    handle: str
    found: bool
    since: datetime
    log: TryLog

    def follow(self, on_line: Callable[[Line], None]) -> JobEnd:
        """How it ended, and removed. What another attempt has taken over meanwhile is left to it.

        Its log is stored, however this call ends. Secrets are masked in the log, in the lines and in the end's tail.
        """
        elapsed_s = (datetime.now(UTC) - self.since).total_seconds()
        with self.log:
            ended = follow_to_end(
                self.runner,
                self.handle,
                self.work.job,
                lambda line: on_line(self.log.hear(line)),
                started=time.monotonic() - elapsed_s,
                resume=self.found,
                is_ours=self.hold.is_ours,
            )
            self.log.end(ended)
        return replace(ended, tail=tuple(map(self.log.mask, ended.tail)))

    def interrupt(self) -> None:
        """Send it a notice to stop, and return at once. After its grace it is killed and removed.

        A signal's handler may call this.
        """
        if self.runner.durable:
            work = self.work
            end_later(self.handle, work.grace_s, store=work.plan.store, lease=work.lease, holder=work.attempt)
        else:
            self.runner.notify(self.handle)


def find_begun(runner: Runner, work: Work, attempt: str) -> str | None:
    """The handle of an attempt's job that runs or has ended; not of one that was created and never started."""
    for handle in runner.find(work.labels(attempt)):
        with suppress(JobGone):
            if runner.status(handle).begun:
                return handle
    return None
