"""How long a stage waits for what does not answer: a time, and no number of tries.

A change here violates the promise of the project when what passes by itself ends a run for good.
"""

import errno
from typing import ClassVar

from ratchet.contracts.errors import Interrupted, OtherCode, SourceChanged, Unavailable

OUTAGES = (Unavailable, OSError)
"""The classes of what may be an outage; `is_outage` says which of them are."""
AWAY = frozenset(
    {errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN}
    | {errno.ENETUNREACH, errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED}
)
"""Error numbers of a folder on another host that does not answer, as of NFS."""
LONGEST_S = 600.0
"""The longest wait between two looks at what does not answer."""


class OnAnotherHost(Unavailable):
    """Nothing is away: the same task can go on where a worker of another host takes it."""

    unsaid_s: ClassVar[float] = 600.0
    """For how long people hear nothing of it."""
    longest_s: ClassVar[float] = 60.0
    """The longest wait between two looks: the next worker that takes the task may be there."""


def unsaid_s(error: BaseException) -> float:
    """For how many seconds a task waits for what an error says before people hear of it."""
    return error.unsaid_s if isinstance(error, OnAnotherHost) else 0.0


def longest_s(error: BaseException) -> float:
    """The longest wait between two looks at what an error says."""
    return error.longest_s if isinstance(error, OnAnotherHost) else LONGEST_S


def is_outage(error: BaseException) -> bool:
    """Whether an error may pass by itself. After SourceChanged and OtherCode the next try plans again."""
    if isinstance(error, OSError):
        return isinstance(error, ConnectionError | TimeoutError) or error.errno in AWAY
    return isinstance(error, Unavailable) and not isinstance(error, SourceChanged | OtherCode | Interrupted)


def next_wait(waited_s: float, *, first_s: float, limit_s: float, longest_s: float = LONGEST_S) -> float | None:
    """Seconds until the stage is tried again; None once it has waited for `limit_s`.

    waited_s: the sum of its waits so far. It is a sum of waits that were asked for, and no difference of two clocks, so
    neither a clock that is set nor another host changes it. Each wait is as long as all before it, up to `longest_s`.
    """
    left = limit_s - waited_s
    return min(max(first_s, waited_s), longest_s, left) if left > 0 else None
