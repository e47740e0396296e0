"""Encoded days as tensors, and the order in which a training reads their rows.

The order is a pure function of (seed, epoch, step, world size), so the reader has no state to save.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ratchet.contracts.step_rows import CHUNK_ROWS
from tasks.train.chunks import chunk_borders
from tasks.train.curriculum import Sampling, draw
from tasks.train.table import Builder, Columns, Layout, MemoryBuilder, Table

_HOST = torch.device("cpu")


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
        numeric, places, label, weight = table.layout.columns(table.words)
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
            return tensor if tensor is None else tensor.to(device, non_blocking=True)

        if device == self.label.device and device == self.numeric.device:
            return self
        if self.table is not None:  # one transfer for all columns
            words = self.table.words.to(device, non_blocking=True)
            return Rows.of(Table(words=words, layout=self.table.layout), sizes=move(self.sizes))
        return Rows(
            numeric=self.numeric.to(device, non_blocking=True),
            places=self.places.to(device, non_blocking=True),
            label=self.label.to(device, non_blocking=True),
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

    device: that of the network. on_device: the words of the rows there, or None; then numbers and categories are
    gathered there, and only labels and weights by the host.

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
        self._head = None if on_device is None else self._table.head()
        self._expected: tuple[NDArray[np.int64], Future[Rows]] | None = None
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

    def expect(self, chunks: NDArray[np.int64]) -> None:
        """Begin to read chunks in the background, where to read them takes a disk or a transfer.

        The next `read` waits for them if it asks for just these.
        """
        if self._table.file is None and self._device.type == "cpu" and self._on_device is None:
            return  # a copy in memory is done in less time than another thread takes to begin
        self._thread = self._thread or ThreadPoolExecutor(1, "reader")
        self._expected = (chunks, self._thread.submit(self._gather, chunks))

    def read(self, chunks: NDArray[np.int64]) -> Rows:
        """Copy the rows of some chunks into consecutive rows."""
        expected, self._expected = self._expected, None
        if expected is not None and np.array_equal(expected[0], chunks):
            return expected[1].result()
        return self._gather(chunks)

    def _gather(self, chunks: NDArray[np.int64]) -> Rows:
        layout, sizes = self._table.layout, self._sizes_of(chunks)
        if self._on_device is not None and self._head is not None:
            numbers = torch.from_numpy(self.row_numbers(chunks))
            head = self._head.layout.columns(self._head.words[numbers])
            columns = layout.columns(self._on_device[numbers.to(self._on_device.device)])
            return Rows(
                numeric=columns.numeric, places=columns.places, label=head.label, weight=head.weight, sizes=sizes
            )
        # torch keeps pinned memory that is free, and gives it away when its transfer is complete
        pinned = self._device.type == "cuda"
        words = self._table.gather(self._begin[chunks], self._end[chunks], pinned=pinned)
        return Rows.of(Table(words=words, layout=layout), sizes=sizes)

    def _sizes_of(self, chunks: NDArray[np.int64]) -> Tensor | None:
        if self._sizes is None or self._groups is None:
            return None
        parts = zip(self._groups[chunks].tolist(), self._groups[chunks + 1].tolist(), strict=True)
        return torch.cat([self._sizes[:0], *(self._sizes[begin:end] for begin, end in parts)])


def shuffled(count: int, sizes: NDArray[np.int64] | None, seed: int) -> NDArray[np.int32]:
    """The new place of each of `count` rows in one random order. Groups stay whole, and so does the order in them.

    So the rows of a batch are as good as independent, whatever order the source has: blocks of rows that lie side by
    side come from all days. sizes: rows of each group, or None without groups.
    """
    draw = np.random.default_rng(seed)
    rows = np.arange(count, dtype=np.int32)
    if sizes is None:
        return draw.permutation(rows)
    order = draw.permutation(len(sizes))
    begin = np.empty(len(sizes), np.int64)
    begin[order] = np.cumsum(sizes[order]) - sizes[order]
    rows += np.repeat((begin - (np.cumsum(sizes) - sizes)).astype(np.int32), sizes)
    return rows


def join(
    blocks: Iterable[Rows],
    places: NDArray[np.int32],
    *,
    sizes: NDArray[np.int64] | None = None,
    build: Callable[[Layout, int], Builder] = MemoryBuilder,
) -> Rows:
    """The rows of blocks, each at its place. Memory holds the table and one block.

    sizes: rows of each group, in the order of the blocks; None if the blocks have them, or if there are no groups.
    build: makes what builds a table of so many rows. Raises ValueError if the blocks have another number of rows than
    there are places.
    """
    of_blocks: list[NDArray[np.int64]] = []
    builder, layout, begin = None, None, 0
    for block in blocks:
        if builder is None or layout is None:
            layout = layout_of(block)
            builder = build(layout, len(places))
        where = places[begin : begin + len(block)]
        if len(where) < len(block):
            raise ValueError(f"{begin + len(block)} rows or more instead of {len(places)}")
        builder.add(layout.pack(Columns(block.numeric, block.places, block.label, block.weight)), where)
        if block.sizes is not None:
            of_blocks.append(block.sizes.numpy())
        begin += len(block)
    if builder is None or begin != len(places):
        raise ValueError(f"{begin} rows instead of {len(places)}")
    found = np.concatenate(of_blocks) if of_blocks else sizes
    numbers = np.empty(len(places), np.int32)
    numbers[places] = np.arange(len(places), dtype=np.int32)
    in_order = None if found is None else _in_order(found, places)
    return Rows.of(builder.finish(), sizes=in_order, number=torch.from_numpy(numbers))


def _in_order(sizes: NDArray[np.int64], places: NDArray[np.int32]) -> Tensor:
    """The sizes of groups in the order of the places of their first rows."""
    return torch.from_numpy(sizes[np.argsort(places[np.cumsum(sizes) - sizes])])
