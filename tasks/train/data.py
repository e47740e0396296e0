"""Encoded rows as tensors, and the order in which a training reads them.

The order is a pure function of (seed, epoch, step, world size), so the reader has no state to save.
"""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ratchet.contracts.step_rows import CHUNK_ROWS
from ratchet.model.transfer import to_device
from tasks.train.chunks import chunk_borders
from tasks.train.curriculum import Sampling, draw
from tasks.train.table import Columns, Layout, Table

_HOST = torch.device("cpu")

_AHEAD_BYTES, _MOST_AHEAD = 8 << 20, 32
"""Rows in memory that are copied at once, and the most batches of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Consecutive rows.

    numeric float32 [rows, k], standardised, NaN where missing; places int32 [rows, c]; label float32 (int64 for
    classes, float64 for a regression, on its own scale); weight float32, or None;
    sizes int64 [groups], rows of each group in order, or None without groups;
    number int32, of each row in its days, one day after the other, or None where that is not known;
    table: the words in whose memory the columns are, or None where they are apart.
    """

    numeric: Tensor
    places: Tensor
    label: Tensor
    weight: Tensor | None
    sizes: Tensor | None
    number: Tensor | None = None
    table: Table | None = field(default=None, init=False, repr=False)  # so that `replace` makes rows without one

    @classmethod
    def of(cls, table: Table, *, sizes: Tensor | None, number: Tensor | None = None) -> "Rows":
        """The rows of a table, in its memory."""
        return cls._of(table, table.layout.columns(table.words), sizes, number)

    @classmethod
    def in_parts(cls, table: Table, counts: list[int], sizes: Sequence[Tensor | None]) -> "list[Rows]":
        """The rows of a table in parts of so many rows, in its memory. sizes: of the groups of each part."""
        columns = table.layout.columns(table.words)
        weights = [None] * len(counts) if columns.weight is None else columns.weight.split_with_sizes(counts)
        in_parts = map(Columns, *(column.split_with_sizes(counts) for column in columns[:3]), weights)
        tables = (Table(words=words, layout=table.layout) for words in table.words.split_with_sizes(counts))
        return [cls._of(*part, None) for part in zip(tables, in_parts, sizes, strict=True)]

    @classmethod
    def _of(cls, table: Table, columns: Columns, sizes: Tensor | None, number: Tensor | None) -> "Rows":
        numeric, places, label, weight = columns
        rows = cls(numeric=numeric, places=places, label=label, weight=weight, sizes=sizes, number=number)
        object.__setattr__(rows, "table", table)
        return rows

    def packed(self) -> Table:
        """The rows as a table; a copy, unless they have one."""
        if self.table is not None:
            return self.table
        layout = layout_of(self)
        words = layout.pack(Columns(self.numeric, self.places, self.label, self.weight))
        return Table(words=torch.from_numpy(words), layout=layout)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.label)

    def to(self, device: torch.device) -> "Rows":
        """The same rows on a device."""

        def move(tensor: Tensor | None) -> Tensor | None:
            return tensor if tensor is None else to_device(tensor, device)

        if device == self.label.device and device == self.numeric.device:
            return self
        if self.table is not None:  # one transfer for all columns
            words = to_device(self.table.words, device)
            return Rows.of(Table(words=words, layout=self.table.layout), sizes=move(self.sizes))
        return Rows(
            numeric=to_device(self.numeric, device),
            places=to_device(self.places, device),
            label=to_device(self.label, device),
            weight=move(self.weight),
            sizes=move(self.sizes),
        )

    def split(self, count: int) -> "tuple[Rows, Rows]":
        """The first `count` rows, which end a group, and the others, in the same memory."""
        cuts = np.array([0, count, len(self)])
        groups = None
        if self.sizes is not None:
            groups = np.searchsorted(np.append(0, np.cumsum(self.sizes.cpu().numpy())), cuts)
        return self._part(0, cuts, groups), self._part(1, cuts, groups)

    def parts(self, count: int) -> "list[Rows]":
        """Split the rows into at most `count` parts of about equal size; no part is empty, and groups stay whole."""
        if count == 1:
            return [self]
        cuts = np.linspace(0, len(self), count + 1).astype(np.int64)
        groups = None
        if self.sizes is not None:
            ends = np.append(0, np.cumsum(self.sizes.cpu().numpy()))
            groups = np.unique(np.searchsorted(ends, cuts))
            cuts = ends[groups]
        cuts = np.unique(cuts)
        return [self._part(number, cuts, groups) for number in range(len(cuts) - 1)]

    def chunks(self, count: int) -> "list[Rows]":
        """The rows, so many at a time, without their groups."""
        cuts = np.append(np.arange(0, len(self), count), len(self))
        return [self._part(number, cuts, None) for number in range(len(cuts) - 1)]

    def _part(self, number: int, cuts: NDArray[np.int64], groups: NDArray[np.int64] | None) -> "Rows":
        span = slice(int(cuts[number]), int(cuts[number + 1]))
        sizes = None
        if self.sizes is not None and groups is not None:
            sizes = self.sizes[int(groups[number]) : int(groups[number + 1])]
        in_days = None if self.number is None else self.number[span]
        if self.table is not None:
            return Rows.of(self.table.part(span), sizes=sizes, number=in_days)
        return Rows(
            numeric=self.numeric[span],
            places=self.places[span],
            label=self.label[span],
            weight=None if self.weight is None else self.weight[span],
            sizes=sizes,
            number=in_days,
        )


def layout_of(rows: Rows) -> Layout:
    """The layout of a table of such rows."""
    return Layout(
        label=rows.label.dtype,
        weighted=rows.weight is not None,
        numeric=rows.numeric.shape[1],
        categorical=rows.places.shape[1],
    )


class Reader:
    """Reads batches of shuffled chunks of rows; groups stay whole.

    device: that of the network. on_device: the words of the rows there, or None; then they are gathered there. Where
    the host has to know the sum of weights, or the labels of groups, it gathers labels and weights.

    sampling: draws the chunks of an epoch, some of them more than once; the rows need their numbers for it.

    A change here violates the promise of the project when two epochs have another number of batches, or, without a
    curriculum, when a row is in no batch of an epoch or in two.
    """

    def __init__(
        self,
        rows: Rows,
        *,
        batch_size: int,
        seed: int,
        chunk_rows: int = CHUNK_ROWS,
        device: torch.device = _HOST,
        on_device: Tensor | None = None,
        sampling: Sampling | None = None,
    ) -> None:
        self._table, self._sizes = rows.packed(), rows.sizes
        self._on_device, self._device = on_device, device
        needs_head = on_device is not None and (self._table.layout.weighted or rows.sizes is not None)
        self._head = self._table.head() if needs_head else None
        self._expected: tuple[NDArray[np.int64], Future[Rows]] | None = None
        self._ahead: deque[tuple[NDArray[np.int64], Rows]] = deque()
        self._thread: ThreadPoolExecutor | None = None
        self._seed = seed
        starts, self._groups = chunk_borders(len(rows), rows.sizes, min(chunk_rows, batch_size))
        self._begin, self._end = starts[:-1], starts[1:]
        self._weights: NDArray[np.float64] | None = None
        if sampling is not None and rows.number is not None:
            self._weights = sampling.of_chunks(rows.number.numpy(), self._begin, self._end)
        self._filled = np.minimum(self._end - self._begin, batch_size)
        self.steps = -(-int(self._filled.sum()) // batch_size)
        """The batches of every epoch."""
        bytes_of_batch = batch_size * self._table.layout.row_bytes
        self.ahead = max(min(_AHEAD_BYTES // bytes_of_batch, _MOST_AHEAD), 1)
        """The batches that `expect` reads ahead at most."""

    def epoch(self, epoch: int, *, rank: int = 0, world_size: int = 1) -> list[NDArray[np.int64]]:
        """The batches of an epoch as chunk numbers: equally many for each rank, and each chunk in one rank alone.

        All batches are about as large, the last one too. A batch ends with the chunk that fills it. A chunk fills at
        most one batch, however long its groups are, and each batch leaves a chunk for each that follows: so the number
        of batches does not depend on the order.
        """
        order = draw(self._weights, len(self._begin), self._seed, epoch)
        ends, filled = np.arange(1, self.steps), np.cumsum(self._filled[order])
        cuts = np.searchsorted(filled, -(-ends * filled[-1] // self.steps)) + 1
        cuts = np.maximum.accumulate(cuts - ends) + ends  # at least one chunk each
        borders = [0, *np.minimum(cuts, len(order) - self.steps + ends).tolist(), len(order)]
        return [order[begin + rank : end : world_size] for begin, end in pairwise(borders)]

    def row_numbers(self, chunks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of the rows that `read` copies, in its order."""
        begin, counts = self._begin[chunks], (self._end - self._begin)[chunks]
        first = np.cumsum(counts) - counts
        return np.repeat(begin - first, counts) + np.arange(counts.sum())

    def longest(self, rows: int) -> NDArray[np.int64]:
        """The chunks with the longest groups, `rows` rows or a few more."""
        order = np.arange(len(self._begin))
        if self._sizes is not None and self._groups is not None:
            order = np.argsort(-np.maximum.reduceat(self._sizes.numpy(), self._groups[:-1]), kind="stable")
        filled = np.cumsum((self._end - self._begin)[order])
        return order[: int(np.searchsorted(filled, rows)) + 1]

    def expect(self, batches: Sequence[NDArray[np.int64]]) -> None:
        """Read ahead the chunks of the next calls of `read`, in their order.

        From a disk, or to a device, the first ones are read in the background. In memory a copy is done in less time
        than another thread takes to begin, and so it is where the rows are on the device: there all are copied at once,
        when those before have been read.
        """
        if self._on_device is not None or (self._table.file is None and self._device.type == "cpu"):
            if not self._is_next(batches[0]):
                self._ahead = deque(zip(batches, self._gather_all(batches), strict=True))
            return
        self._thread = self._thread or ThreadPoolExecutor(1, "reader")
        self._expected = (batches[0], self._thread.submit(self._gather, batches[0]))

    def read(self, chunks: NDArray[np.int64]) -> Rows:
        """Copy the rows of some chunks into consecutive rows."""
        if self._is_next(chunks):
            return self._ahead.popleft()[1]
        expected, self._expected = self._expected, None
        if expected is not None and np.array_equal(expected[0], chunks):
            return expected[1].result()
        return self._gather(chunks)

    def _is_next(self, chunks: NDArray[np.int64]) -> bool:
        return bool(self._ahead) and self._ahead[0][0].tobytes() == chunks.tobytes()  # the fastest comparison

    def _gather_all(self, batches: Sequence[NDArray[np.int64]]) -> list[Rows]:
        """The rows of several batches, in the memory of one table."""
        chunks = np.concatenate(batches)
        begins, ends = self._begin[chunks], self._end[chunks]
        last = np.cumsum([len(batch) for batch in batches])
        rows = np.append(0, np.cumsum(ends - begins))[np.append(0, last)]
        counts, sizes = np.diff(rows).tolist(), [self._sizes_of(batch) for batch in batches]
        if self._on_device is None:
            table = Table(words=self._table.gather(begins, ends), layout=self._table.layout)
            return Rows.in_parts(table, counts, sizes)
        numbers = torch.from_numpy(self.row_numbers(chunks))
        words = self._on_device.index_select(0, to_device(numbers, self._device))
        found = Rows.in_parts(Table(words=words, layout=self._table.layout), counts, sizes)
        if self._head is None:
            return found
        heads = Rows.in_parts(Table(words=self._head.words[numbers], layout=self._head.layout), counts, sizes)
        return [replace(one, label=head.label, weight=head.weight) for one, head in zip(found, heads, strict=True)]

    def _gather(self, chunks: NDArray[np.int64]) -> Rows:
        if self._on_device is not None:
            return self._gather_all([chunks])[0]
        # torch keeps pinned memory that is free, and gives it away when its transfer is complete
        pinned = self._device.type == "cuda"
        words = self._table.gather(self._begin[chunks], self._end[chunks], pinned=pinned)
        return Rows.of(Table(words=words, layout=self._table.layout), sizes=self._sizes_of(chunks))

    def _sizes_of(self, chunks: NDArray[np.int64]) -> Tensor | None:
        if self._sizes is None or self._groups is None:
            return None
        parts = zip(self._groups[chunks].tolist(), self._groups[chunks + 1].tolist(), strict=True)
        return torch.cat([self._sizes[:0], *(self._sizes[begin:end] for begin, end in parts)])
