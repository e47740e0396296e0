"""How far a container's log was handed on, kept for a follower that goes on after this one.

The record survives the death of the process that writes it, at any moment. It need not survive the machine.
"""

import os
import struct
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Self

from ratchet.runners.private_folder import private_folder

_DISORDER = timedelta(seconds=1)
"""How far apart in time entries may be that the engine wrote in the other order: it reads the two streams in turn."""
_MARK = struct.Struct("<40sQ?7x")


@dataclass(slots=True)
class Mark:
    """How far one stream was read: every line that ends before `time`, and the first `count` pieces of that time.

    A piece is a line, or the part of a long line that one entry holds. time: as the engine writes it; empty at the
    begin of the log. held: whether the next line has begun and has not ended.
    """

    time: bytes = b""
    count: int = 0
    held: bool = False


@dataclass(slots=True)
class Position:
    """A mark for stdout and one for stderr: what is before them is not read again, what is after them is."""

    marks: tuple[Mark, Mark] = field(default_factory=lambda: (Mark(), Mark()))

    @property
    def since(self) -> dict[str, str]:
        """As a parameter of the engine's API, which takes seconds and nanoseconds and includes that moment."""
        newest = max(mark.time for mark in self.marks)
        if not newest:
            return {}
        begin = min([_moment(newest) - _DISORDER, *(_moment(mark.time) for mark in self.marks if mark.held)])
        return {"since": f"{int(begin.timestamp())}.{begin.microsecond:06}"}

    def pack(self) -> bytes:
        """As bytes of a fixed number."""
        return b"".join(_MARK.pack(mark.time, mark.count, mark.held) for mark in self.marks)

    @classmethod
    def unpack(cls, packed: bytes) -> Self | None:
        """What `pack` returned, or None if it is something else."""
        if len(packed) != 2 * _MARK.size:
            return None
        stdout, stderr = (Mark(time.rstrip(b"\0"), count, held) for time, count, held in _MARK.iter_unpack(packed))
        try:
            _ = [_moment(mark.time) for mark in (stdout, stderr) if mark.time]
        except ValueError:
            return None
        return cls((stdout, stderr))


class PositionFile:
    """A file of one record, overwritten in place after each line. Use as a context manager."""

    def __init__(self, handle: str) -> None:
        self._file = os.open(
            private_folder("positions") / handle, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )

    def read(self) -> Position:
        """The position that was written last; the begin of the log if there is none."""
        return Position.unpack(os.pread(self._file, 4096, 0)) or Position()

    def write(self, position: Position) -> None:
        """Keep a position, in one write: the file holds this one or the one before."""
        os.pwrite(self._file, position.pack(), 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


def discard(handle: str) -> None:
    """Remove the file of a handle, if there is one."""
    (private_folder("positions") / handle).unlink(missing_ok=True)


def _moment(time: bytes) -> datetime:
    """To the microsecond, rounded down."""
    whole, _, rest = time.decode("ascii").removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00") + timedelta(microseconds=int(rest.ljust(6, "0")[:6] or 0))
