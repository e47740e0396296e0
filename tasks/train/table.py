"""The rows of a training as one matrix of 32-bit words.

A block of rows is then one copy, one read from a disk, or one transfer to a device, however many columns there are.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tasks.train.nameless_file import NamelessFile

Words = NDArray[np.int32]

_PARTS_OF_A_RUN = 8
"""A run is worth a call from so many parts on."""


class Columns(NamedTuple):
    """The columns of rows, in the memory of their words. The fields are those of data.Rows."""

    numeric: Tensor
    places: Tensor
    label: Tensor
    weight: Tensor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What the words of a row hold, in this order: its label, its weight, its numbers, and the places of categories.

    label: the type of labels, of one word or of two. numeric, categorical: numbers of columns.
    """

    label: torch.dtype
    weighted: bool
    numeric: int
    categorical: int

    @property
    def head(self) -> int:
        """The words of label and weight."""
        return self.label.itemsize // 4 + self.weighted

    @property
    def width(self) -> int:
        """The words of a row. Labels of two words begin at an even one, so then the width is even."""
        needed = self.head + self.numeric + self.categorical
        return needed + needed % (self.label.itemsize // 4)

    @property
    def row_bytes(self) -> int:
        """The bytes of a row."""
        return 4 * self.width

    def columns(self, words: Tensor) -> Columns:
        """The columns in words, int32 [rows, width]."""
        floats, first = words.view(torch.float32), self.label.itemsize // 4
        middle = self.head + self.numeric
        return Columns(
            numeric=floats[:, self.head : middle],
            places=words[:, middle : middle + self.categorical],
            label=floats[:, 0] if self.label == torch.float32 else words[:, :first].view(self.label)[:, 0],
            weight=floats[:, first] if self.weighted else None,
        )

    def pack(self, columns: Columns) -> Words:
        """The words of rows."""
        words = torch.zeros((len(columns.label), self.width), dtype=torch.int32)
        for to, found in zip(self.columns(words), columns, strict=True):
            if to is not None and found is not None:
                to.copy_(found)
        packed: Words = words.numpy()
        return packed


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows in a layout. words: int32 [rows, width]. file: holds the same words from row `begin` on, or None."""

    words: Tensor
    layout: Layout
    file: NamelessFile | None = None
    begin: int = 0

    def part(self, span: slice) -> "Table":
        """Some rows, in the same memory."""
        return Table(words=self.words[span], layout=self.layout, file=self.file, begin=self.begin + span.start)

    def head(self) -> "Table":
        """Labels and weights alone; a copy."""
        layout = replace(self.layout, numeric=0, categorical=0)
        return Table(words=self.words[:, : layout.width].contiguous(), layout=layout)

    def gather(self, begins: NDArray[np.int64], ends: NDArray[np.int64], *, pinned: bool = False) -> Tensor:
        """Copy the rows from each begin to its end, one part after the other, into new words.

        Runs of parts of equal length in memory are copied by one call each. Others are slices of bytes, which take a
        third of the time of slices of tensors. pinned: into memory that a GPU can read from by itself.
        """
        counts, width = ends - begins, self.layout.width
        words = _empty(int(counts.sum()), width, pinned=pinned)
        runs = np.concatenate(([0], np.flatnonzero(np.diff(counts)) + 1, [len(counts)])).tolist()
        if self.file is not None or len(runs) > max(len(counts) // _PARTS_OF_A_RUN, 2):
            self._copy(begins, counts, words.numpy().data.cast("B"))
            return words
        row = 0
        for first, after in pairwise(runs):
            if first == after:
                continue  # there are no parts
            length = int(counts[first])
            windows = self.words.as_strided((len(self.words) - length + 1, length * width), (width, 1))
            end = row + (after - first) * length
            target = words[row:end].view(after - first, length * width)
            torch.index_select(windows, 0, torch.from_numpy(begins[first:after]), out=target)
            row = end
        return words

    def _copy(self, begins: NDArray[np.int64], counts: NDArray[np.int64], target: memoryview) -> None:
        """From a file, other threads go on meanwhile: a page of mapped memory that is not there would stop them all."""
        size = self.layout.row_bytes
        last = np.cumsum(counts) * size
        to = zip((last - counts * size).tolist(), last.tolist(), strict=True)
        if self.file is None:
            source = self.words.numpy().data.cast("B")
            ends = ((begins + counts) * size).tolist()
            for begin, end, (first, after) in zip((begins * size).tolist(), ends, to, strict=True):
                target[first:after] = source[begin:end]
            return
        offsets = ((begins + self.begin) * size).tolist()
        for offset, count in zip(offsets, (counts * size).tolist(), strict=True):
            self.file.read_soon(offset, count)  # the disk works on all of them at once
        for offset, (first, after) in zip(offsets, to, strict=True):
            self.file.read(target[first:after], offset)


class Builder(Protocol):
    """Puts rows at their places in a table, block by block."""

    def add(self, words: Words, places: NDArray[np.int32]) -> None:
        """Put rows, int32 [rows, width], at their places."""
        ...

    def finish(self) -> Table:
        """The table, when each place has its row."""
        ...


class MemoryBuilder:
    """Builds a table in memory."""

    def __init__(self, layout: Layout, rows: int) -> None:
        self._layout = layout
        self._words = np.empty((rows, layout.width), np.int32)  # numpy asks for large pages, and torch does not

    def add(self, words: Words, places: NDArray[np.int32]) -> None:
        """Put rows at their places."""
        self._words[places] = words

    def finish(self) -> Table:
        """The table."""
        return Table(words=torch.from_numpy(self._words), layout=self._layout)


def _empty(rows: int, width: int, *, pinned: bool) -> Tensor:
    """Words without values, in large pages where they are many: numpy asks for those, and torch does not."""
    if pinned or not rows:
        return torch.empty((rows, width), dtype=torch.int32, pin_memory=pinned)
    return torch.from_numpy(np.empty((rows, width), np.int32))
