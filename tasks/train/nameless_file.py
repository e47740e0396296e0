"""Files without a name: nothing is left on the disk, however the process ends."""

import os
import tempfile
import weakref
from pathlib import Path
from typing import Any

from numpy.typing import NDArray


class NamelessFile:
    """A file on the disk of a folder. It is closed, and its space is free again, when nothing refers to it."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError."""
        with tempfile.TemporaryFile(dir=folder) as file:
            self.descriptor = os.dup(file.fileno())
        self.bytes = 0
        self._closing = weakref.finalize(self, os.close, self.descriptor)

    def append(self, array: NDArray[Any]) -> None:
        """Write an array at the end. Raises OSError."""
        data = array.data.cast("B")
        while data:
            count = os.pwrite(self.descriptor, data, self.bytes)
            data, self.bytes = data[count:], self.bytes + count

    def read(self, target: memoryview, offset: int) -> None:
        """Fill the target with the bytes from an offset on. Other threads go on meanwhile. Raises OSError, EOFError."""
        while target:
            count = os.preadv(self.descriptor, [target], offset)
            if not count:
                raise EOFError("a file of this training is shorter than it was written")
            target, offset = target[count:], offset + count

    def read_soon(self, offset: int, count: int) -> None:
        """Let the disk begin to read."""
        os.posix_fadvise(self.descriptor, offset, count, os.POSIX_FADV_WILLNEED)

    def close(self) -> None:
        """Close the file now."""
        self._closing()
