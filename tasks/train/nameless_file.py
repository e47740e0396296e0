"""Files without a name: nothing is left on a disk or in memory, however the processes end that have them open."""

import mmap
import os
import tempfile
import weakref
from pathlib import Path
from typing import Any, Self

from numpy.typing import NDArray


class NamelessFile:
    """It is closed, and its space free again, when nothing refers to it, in any process. descriptor: owned by it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.bytes = os.fstat(descriptor).st_size
        self.is_in_memory = False
        self._closing = weakref.finalize(self, os.close, descriptor)

    @classmethod
    def on_disk(cls, folder: Path) -> Self:
        """An empty file on the disk of a folder. Raises OSError."""
        with tempfile.TemporaryFile(dir=folder) as file:
            return cls(os.dup(file.fileno()))

    @classmethod
    def in_memory(cls, size: int) -> Self:
        """A file of so many zeros in memory, which is taken as they are written; not in /dev/shm. Raises OSError."""
        made = cls(os.memfd_create("rows"))
        os.ftruncate(made.descriptor, size)
        made.bytes, made.is_in_memory = size, True
        return made

    @classmethod
    def opened(cls, path: str) -> Self:
        """The file that a process of this host has at its `path`, to be read. Raises OSError: it may have ended."""
        return cls(os.open(path, os.O_RDONLY))

    @property
    def path(self) -> str:
        """Where other processes of this user and host can open it while this process has it open."""
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"

    def map(self, *, writable: bool = False) -> mmap.mmap:
        """Its bytes in the memory of this process; they stay there when it is closed. Raises OSError."""
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        return mmap.mmap(self.descriptor, self.bytes, access=access)

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
