"""The job that an attempt follows: a container or a process that computes some work, under our lease."""

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace

from ratchet.contracts.errors import JobGone, RatchetError
from ratchet.contracts.labels import Label
from ratchet.runners.detached import end_later
from ratchet.runners.following import TAIL_LINES, JobEnd, Leave, follow_to_end
from ratchet.runners.log.lines import Line
from ratchet.runners.runner import Runner
from ratchet.runs.jobs import CREDENTIALS
from ratchet.runs.renewing import keys_renewed
from ratchet.runs.try_log import TryLog
from ratchet.runs.work import Work
from ratchet.store.lease import Hold


@dataclass(frozen=True, kw_only=True)
class StageJob:
    """A job that computes some work: started, or found again.

    hold: our lease. found: whether an earlier attempt started it. since: `time.monotonic()` of when the stage's time
    began: what earlier followers have counted is before it, and no clock of another host decides. log: what it prints.
    leave: when it is left to a process that follows many. again: whether this follows what was left so.
    """

    work: Work
    runner: Runner
    hold: Hold
    handle: str
    found: bool
    since: float
    log: TryLog
    leave: Leave | None = None
    again: bool = False

    def follow(self, on_line: Callable[[Line], None]) -> JobEnd:
        """How it ended. It is kept until it is removed; where this call raises another error than Unavailable: at once.

        Its log is stored, however this call ends. Secrets are masked in the log, in the lines and in the end's tail.
        Raises LeftRunning where it was left; then it goes on, and its log is not stored yet.
        """
        job = self.work.job
        with self.log, self.keys():
            ended = follow_to_end(
                self.runner,
                self.handle,
                job,
                lambda line: on_line(self.log.mask(line) if self.again else self.log.hear(line)),
                started=self.since,
                resume=self.found,
                is_ours=self.hold.is_ours,
                keep=True,
                leave=self.leave,
            )
            if self.again:
                ended = replace(ended, tail=self._read_all(ended.tail))
            self.log.end(ended)
        return replace(ended, tail=tuple(map(self.log.mask, ended.tail)))

    def keys(self) -> AbstractContextManager[None]:
        """New keys reach the job during the block, if it has some that expire."""
        secrets = self.work.job.secrets
        if CREDENTIALS not in secrets:
            return nullcontext()
        return keys_renewed(self.work.keys, self._renew, given=None if self.found else secrets[CREDENTIALS])

    def _read_all(self, read: tuple[Line, ...]) -> tuple[Line, ...]:
        """The last lines of the whole log, which earlier followers have not stored. read: those read now."""
        tail: deque[Line] = deque(maxlen=TAIL_LINES)
        try:
            for line in self.runner.logs(self.handle):
                self.log.take(line)
                tail.append(line)
        except RatchetError:
            return tuple(tail) or read
        return tuple(tail)

    def _renew(self, keys: bytes) -> None:
        self.log.learn({CREDENTIALS: keys})  # before the stage can print them
        self.runner.renew(self.handle, CREDENTIALS, keys)

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


def may_live(runner: Runner, work: Work) -> bool:
    """Whether a job for this work may go on without its follower: it runs or may start, or nobody can say."""
    if not runner.durable:
        return False
    try:
        for handle in runner.find(work.labels()):
            with suppress(JobGone):
                if runner.status(handle).running:
                    return True
    except RatchetError:
        return True
    return False


def find_running(runner: Runner, work: Work) -> str | None:
    """The name of an attempt whose job for this work runs, whoever started it."""
    for handle in runner.find(work.labels()):
        with suppress(JobGone):
            status = runner.status(handle)
            if status.running and status.begun:
                return runner.labels(handle)[Label.ATTEMPT]
    return None
