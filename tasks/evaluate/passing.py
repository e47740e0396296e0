"""Errors of the model in production that say nothing about it: memory, a full disk, a service that does not answer.

A change here violates the promise of the project when a verdict about production is stored for a cause that is gone on
the next night.
"""

import errno
from collections.abc import Iterator

from ratchet.contracts.errors import OutOfMemory, Preempted, Unavailable

_ERRNOS = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.EINTR, errno.ESTALE),
        *(errno.EACCES, errno.EPERM, errno.ENOTCONN, errno.ENODEV),  # a mount or its rights, never the model
    }
)
_NO_MEMORY = ("can't allocate memory", "out of memory")
_NO_THREAD = "can't start new thread"


def raise_passing(error: BaseException) -> None:
    """Raise what may pass, as it is or as an error of ours; return for any other error.

    The models of earlier versions raise ConfigurationError from whatever their code met, so all causes are looked at.
    """
    for cause in _causes(error):
        said = f"{type(cause).__name__}: {cause}"
        if isinstance(cause, Unavailable | Preempted | OutOfMemory):
            raise cause
        if isinstance(cause, MemoryError) or _says(cause, *_NO_MEMORY) or _errno(cause) == errno.ENOMEM:
            raise OutOfMemory(f"evaluate ran out of memory while it scored the model of production: {said:.300}")
        if isinstance(cause, ConnectionError | TimeoutError) or _errno(cause) in _ERRNOS or _says(cause, _NO_THREAD):
            raise Unavailable(
                f"the model of production cannot be scored now: {said:.300}",
                remedy="check this machine's disk and processes; run again if no retry follows",
            ) from error


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what it was raised from, the outermost first."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)


def _errno(error: BaseException) -> int | None:
    return error.errno if isinstance(error, OSError) else None


def _says(error: BaseException, *texts: str) -> bool:
    return isinstance(error, RuntimeError) and any(text in str(error) for text in texts)
