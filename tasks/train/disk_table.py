"""A table that is larger than memory: rows are put at their places on a disk, in two passes and without random writes.

First each row is appended to the bucket of its place; then one bucket after the other is put in order in memory, and
appended to the table.
"""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ratchet.contracts.errors import Unavailable
from tasks.train.nameless_file import NamelessFile
from tasks.train.table import Layout, Table, Words

BUCKET_BYTES = 64 << 20
"""Of the table; memory holds two buckets at a time."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_MOST_BUCKETS = 256
"""A larger table has larger buckets: each is an open file."""


class DiskBuilder:
    """Builds a table on a disk.

    folder: on the disk. Raises Unavailable if the disk has not enough space, at once or later.
    """

    def __init__(self, layout: Layout, rows: int, folder: Path, *, bucket_bytes: int = BUCKET_BYTES) -> None:
        self._layout, self._folder = layout, folder
        self._needed = needed_bytes(layout, rows, bucket_bytes)
        if self._needed > shutil.disk_usage(folder).free:
            raise self._full()
        size = max(bucket_bytes // layout.row_bytes, -(-rows // _MOST_BUCKETS), 1)
        self._borders = np.append(np.arange(0, rows, size), rows)
        self._size = size
        with self._errors():
            self._buckets = [NamelessFile.on_disk(folder) for _ in self._borders[1:]]

    def add(self, words: Words, places: NDArray[np.int32]) -> None:
        """Append rows to their buckets, each with its place."""
        bucket = places // self._size
        order = np.argsort(bucket, kind="stable")
        records = np.column_stack([places[order], words[order]])
        cuts = np.searchsorted(bucket[order], np.arange(len(self._buckets) + 1))
        with self._errors():
            for file, begin, end in zip(self._buckets, cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
                if begin < end:
                    file.append(records[begin:end])

    def finish(self) -> Table:
        """The table, mapped into memory: the kernel may drop its pages at any time."""
        width = self._layout.width
        with self._errors():
            table = NamelessFile.on_disk(self._folder)
            for number, file in enumerate(self._buckets):
                begin, end = self._borders[number : number + 2].tolist()
                records = np.empty((file.bytes // (4 + self._layout.row_bytes), 1 + width), np.int32)
                file.read(records.data.cast("B"), 0)
                file.close()  # and with it goes its space
                words = np.empty((end - begin, width), np.int32)
                words[records[:, 0] - begin] = records[:, 1:]
                table.append(words)
        mapped = np.frombuffer(table.map(writable=True), np.int32).reshape(-1, width)
        return Table(words=torch.from_numpy(mapped), layout=self._layout, file=table)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in _FULL:
                raise self._full() from error
            raise

    def _full(self) -> Unavailable:
        free = shutil.disk_usage(self._folder).free
        return Unavailable(
            f"{self._folder}: the disk is full, {free:,} bytes are free; the rows of the training take"
            f" {self._needed:,} bytes there, as they are too many for resources.train.memory",
            remedy="free space on this disk, or raise resources.train.memory; run again if no retry follows",
        )


def needed_bytes(layout: Layout, rows: int, bucket_bytes: int = BUCKET_BYTES) -> int:
    """The bytes on a disk that a table takes while it is built."""
    bucket = max(bucket_bytes, -(-rows // _MOST_BUCKETS) * layout.row_bytes)
    return rows * (layout.row_bytes + 4) + min(bucket, rows * layout.row_bytes)
