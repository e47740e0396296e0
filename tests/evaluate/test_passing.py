"""Troubles of the champion that pass, and therefore never become a verdict."""

import errno

import pytest

from ratchet.contracts.errors import ConfigurationError, OutOfMemory, Preempted, RatchetError, Unavailable
from tasks.evaluate.passing import raise_passing


def wrapped(error: BaseException) -> Exception:
    """As the code of a model of an earlier version raises it."""
    outer = ConfigurationError(f"features.py:7: {type(error).__name__}: {error}")
    outer.__cause__ = error
    return outer


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MemoryError("no more"), OutOfMemory),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), OutOfMemory),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), OutOfMemory),
        (OSError(errno.ENOSPC, "No space left on device"), Unavailable),
        (PermissionError(errno.EACCES, "Permission denied"), Unavailable),
        (OSError(errno.ENOTCONN, "Transport endpoint is not connected"), Unavailable),
        (RuntimeError("can't start new thread"), Unavailable),
        (ConnectionResetError("reset"), Unavailable),
        (Preempted("evaluate received a notice to stop"), Preempted),
    ],
)
def test_what_may_pass_is_raised_also_from_inside_an_error_of_the_configuration(
    error: Exception, kind: type[RatchetError]
) -> None:
    for raised in (error, wrapped(error)):
        with pytest.raises(kind):
            raise_passing(raised)


@pytest.mark.parametrize("error", [ZeroDivisionError("old code"), FileNotFoundError("features.csv"), SystemExit(0)])
def test_a_fault_of_the_champion_itself_is_none_of_them(error: BaseException) -> None:
    raise_passing(error)
    raise_passing(wrapped(error))
