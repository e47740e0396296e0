"""A reader of the output that leaves early, as `head` does, is no error of the command."""

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

LEFT = 128 + signal.SIGPIPE
"""The exit code of a command whose reader has left, as the shell reports it."""


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Write out what the block printed. Exits with LEFT, without a traceback, where nobody reads it any more."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        closed = [stream for stream in (sys.stdout, sys.stderr) if _has_no_reader(stream)]
        if not closed:
            raise
        for stream in closed:  # Python flushes both at its end
            with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device
                os.dup2(nowhere.fileno(), stream.fileno())
        raise SystemExit(LEFT) from None


def _has_no_reader(stream: TextIO) -> bool:
    """Whether a stream is a pipe or a socket whose other end is closed."""
    try:
        number = stream.fileno()
    except (OSError, ValueError):
        return False
    poll = select.poll()
    poll.register(number, 0)
    return any(state & (select.POLLERR | select.POLLHUP) for _, state in poll.poll(0))
