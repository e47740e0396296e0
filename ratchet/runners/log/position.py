"""How far a container's log was handed on, kept beside the machine's other temporary files, for who goes on with it.

It survives the death of the process that wrote it at any moment, and need not survive the machine's.
"""

import os
import stat
import tempfile
from pathlib import Path
from typing import Self

from ratchet.contracts.errors import ConfigurationError
from ratchet.runners.log.entries import Position

_OWNER_ONLY = 0o700


class PositionFile:
    """A file of one record, written over in place after each line. Use as a context manager."""

    def __init__(self, handle: str) -> None:
        self._path = _folder() / handle
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def read(self) -> Position:
        """What was kept; the log's begin if nothing was."""
        return Position.unpack(os.pread(self._file, 4096, 0)) or Position()

    def write(self, position: Position) -> None:
        """Keep a position. One write in place: it is there, or the one before is."""
        os.pwrite(self._file, position.pack(), 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


def discard(handle: str) -> None:
    """Drop what was kept of a handle's log."""
    (_folder() / handle).unlink(missing_ok=True)


def _folder() -> Path:
    """This user's own folder under the machine's temporary one, which anybody may write to."""
    folder = Path(tempfile.gettempdir()) / f"ratchet-positions-{os.getuid()}"
    folder.mkdir(mode=_OWNER_ONLY, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigurationError(
            f"{folder} is not a private folder of this user", remedy="remove it; somebody else may have put it there"
        )
    return folder
