"""How a container ended without a result, kept in its lease for an attempt that goes on where it does not see it.

Who follows the container keeps its last lines and its log, too. Of one that nobody followed, its reaper keeps no word:
it does not know the secrets of the stage.

A change here violates the promise of the project when an end is another error elsewhere than on the container's host,
or when what is kept has a secret of the stage.
"""

import json
import time
from collections import deque
from collections.abc import Iterable

from ratchet.contracts.errors import RatchetError
from ratchet.runners.following import TAIL_LINES, JobEnd, was_stopped
from ratchet.runners.log.lines import Line
from ratchet.runners.runner import Runner, Status
from ratchet.runs.events import Event, parse
from ratchet.runs.failures import LAST_LINES, MARKS, failure_of, no_result
from ratchet.runs.remedies import with_log, with_remedy
from ratchet.runs.taking import over_s
from ratchet.runs.work import Work
from ratchet.store.lease import Lease
from ratchet.store.place import End

_LONGEST = 1000
"""Characters of a line of text that is kept."""
_READ_S = 60.0
"""Seconds for the log of a container that nobody followed: after these, what its failure says is not looked for."""


def end_of(status: Status, lines: Iterable[Line], *, host: str, log: str | None) -> End:
    """The end of a job that was followed. lines: its last ones, without secrets."""
    read = list(lines)
    failures = [line for line in read[:-LAST_LINES] if parse(line).name == "failure"]
    last = [*failures[-1:], *read[-LAST_LINES:]]
    kept = tuple(line.text if parse(line).name != "text" else line.text[:_LONGEST] for line in last)
    return _end(status, kept, host=host, log=log)


def unfollowed_end(runner: Runner, handle: str, host: str) -> End:
    """The end of a container that nobody follows. Raises JobGone."""
    status, failure = runner.status(handle), _failure(runner, handle)
    line = f"nobody followed it at its end, so its log is on {host} alone, in its container"
    if failure is not None:
        marks = {name: True for name in MARKS if failure.fields.get(name)}
        line = json.dumps({"event": "failure", "message": line, "code": status.exit_code, **marks})
    return _end(status, (line,), host=host, log=None)


def _end(status: Status, lines: tuple[str, ...], *, host: str, log: str | None) -> End:
    return End(
        exit_code=status.exit_code or 0,
        out_of_memory=status.out_of_memory,
        cause=status.cause,
        host=host,
        lines=lines,
        log=log,
    )


def _failure(runner: Runner, handle: str) -> Event | None:
    """The failure that a container has logged last."""
    tail, until = deque[Line](maxlen=TAIL_LINES), time.monotonic() + _READ_S
    for line in runner.logs(handle):
        tail.append(line)
        if time.monotonic() > until:
            return None
    return next((event for event in map(parse, reversed(tail)) if event.name == "failure"), None)


def has_timed_out(work: Work, attempt: str, seconds: float, status: Status) -> bool:
    """Whether the job of an attempt was stopped because its time was over. seconds: for how long it was followed."""
    return was_stopped(status) and max(over_s(work, attempt), seconds) >= work.timeout_s


def is_of_run(work: Work, lease: Lease) -> bool:
    """Whether a lease was taken by the run of this work."""
    return (lease.run_id, lease.installation) == (work.plan.run_id, work.plan.installation)


def error_of(work: Work, lease: Lease, end: End) -> RatchetError:
    """The error that the end of a lease's job means, as it would be where the job ran."""
    status = Status(running=False, exit_code=end.exit_code, out_of_memory=end.out_of_memory, cause=end.cause)
    ended = JobEnd(
        exit_code=end.exit_code,
        out_of_memory=end.out_of_memory,
        timed_out=has_timed_out(work, lease.attempt, lease.seconds, status),
        seconds=lease.seconds,
        tail=last_lines(end),
        cause=end.cause,
    )
    error = failure_of(work.request, ended) or no_result(work.request)
    return with_log(work, with_remedy(work, error), end.log)


def last_lines(end: End) -> tuple[Line, ...]:
    """The last lines of a job that has ended elsewhere."""
    return tuple(Line("stdout", line) for line in end.lines)


def messages(lines: Iterable[Line]) -> tuple[str, ...]:
    """The last lines of a job as they are kept with its outcome."""
    return tuple(parse(line).message[:_LONGEST] for line in lines)
