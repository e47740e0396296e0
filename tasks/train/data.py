"""Encoded days as tensors, and the order in which a training reads their rows.

The order is a pure function of (seed, epoch, step, world size), so the reader has no state to save.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ratchet.contracts.step_rows import CHUNK_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Consecutive rows.

    numeric float32 [rows, k], standardised, NaN where missing; places int64 [rows, c]; label float32 (int64 for
    classes, float64 for a regression, on its own scale); weight float32, or None;
    sizes int64 [groups], rows of each group in order, or None without groups;
    number int32, of each row in its days, one day after the other, or None where that is not known.
    """

    numeric: Tensor
    places: Tensor
    label: Tensor
    weight: Tensor | None
    sizes: Tensor | None
    number: Tensor | None = None

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.label)

    def to(self, device: torch.device) -> "Rows":
        """The same rows on a device."""

        def move(tensor: Tensor | None) -> Tensor | None:
            return tensor if tensor is None else tensor.to(device, non_blocking=True)

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
        return Rows(
            numeric=self.numeric[span],
            places=self.places[span],
            label=self.label[span],
            weight=None if self.weight is None else self.weight[span],
            sizes=sizes,
            number=None if self.number is None else self.number[span],
        )


class Reader:
    """Reads batches of shuffled chunks of rows; groups stay whole.

    A change here violates the promise of the project when two epochs have another number of batches, or when a row is
    in no batch of an epoch or in two.
    """

    def __init__(self, rows: Rows, *, batch_size: int, seed: int, chunk_rows: int = CHUNK_ROWS) -> None:
        self._rows = rows
        self._seed = seed
        starts, self._groups = _chunks(rows, min(chunk_rows, batch_size))
        self._begin, self._end = starts[:-1], starts[1:]
        self._filled = np.minimum(self._end - self._begin, batch_size)
        self._total = int(self._filled.sum())
        self.steps = -(-self._total // batch_size)
        """The batches of every epoch."""

    def epoch(self, epoch: int, *, rank: int = 0, world_size: int = 1) -> list[NDArray[np.int64]]:
        """The batches of an epoch as chunk numbers: equally many for each rank, and each chunk in one rank alone.

        All batches are about as large, the last one too. A batch ends with the chunk that fills it. A chunk fills at
        most one batch, however long its groups are, and each batch leaves a chunk for each that follows: so the number
        of batches does not depend on the order.
        """
        order = np.random.default_rng((self._seed, epoch)).permutation(len(self._begin))
        ends = np.arange(1, self.steps)
        cuts = np.searchsorted(np.cumsum(self._filled[order]), -(-ends * self._total // self.steps)) + 1
        cuts = np.maximum.accumulate(cuts - ends) + ends  # at least one chunk each
        borders = [0, *np.minimum(cuts, len(order) - self.steps + ends).tolist(), len(order)]
        return [order[begin + rank : end : world_size] for begin, end in pairwise(borders)]

    def row_numbers(self, chunks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of the rows that `read` copies, in its order."""
        spans = zip(self._begin[chunks].tolist(), self._end[chunks].tolist(), strict=True)
        return np.concatenate([np.arange(begin, end) for begin, end in spans])

    def read(self, chunks: NDArray[np.int64]) -> Rows:
        """Copy the rows of some chunks into consecutive rows."""
        spans = [
            slice(begin, end)
            for begin, end in zip(self._begin[chunks].tolist(), self._end[chunks].tolist(), strict=True)
        ]

        def gather(tensor: Tensor) -> Tensor:
            return torch.cat([tensor[span] for span in spans])

        sizes = None
        if self._rows.sizes is not None and self._groups is not None:
            first, last = self._groups[chunks], self._groups[chunks + 1]
            parts = zip(first.tolist(), last.tolist(), strict=True)
            sizes = torch.cat([self._rows.sizes[begin:end] for begin, end in parts])
        return Rows(
            numeric=gather(self._rows.numeric),
            places=gather(self._rows.places),
            label=gather(self._rows.label),
            weight=None if self._rows.weight is None else gather(self._rows.weight),
            sizes=sizes,
        )


def _chunks(rows: Rows, chunk_rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """(first row of each chunk and the end, first group of each chunk and the end or None).

    Chunks are about as large as each other, at most `chunk_rows` unless a group is longer. A last row by itself joins
    the chunk before it: it may become a batch, and layers that normalise by batch fail on one row.
    """
    count = -(-len(rows) // chunk_rows)
    targets = -(-np.arange(1, count + 1) * len(rows) // count)
    if rows.sizes is None:
        starts = np.append(0, targets)
        return _without_single(starts, starts, chunk_rows), None
    ends = np.cumsum(rows.sizes.numpy())
    last = np.unique(np.minimum(np.searchsorted(ends, targets), len(ends) - 1)) + 1  # the group after each chunk
    starts, groups = np.append(0, ends[last - 1]), np.append(0, last)
    return _without_single(starts, starts, chunk_rows), _without_single(groups, starts, chunk_rows)


def _without_single(borders: NDArray[np.int64], starts: NDArray[np.int64], chunk_rows: int) -> NDArray[np.int64]:
    """The borders without the last but one, if the last chunk has one row where others have more."""
    single = chunk_rows > 1 and len(starts) > 2 and starts[-1] - starts[-2] == 1  # noqa: PLR2004 - another chunk
    return np.delete(borders, -2) if single else borders


def shuffled(count: int, sizes: NDArray[np.int64] | None, seed: int) -> NDArray[np.int64]:
    """The new place of each of `count` rows in one random order. Groups stay whole, and so does the order in them.

    So the rows of a batch are as good as independent, whatever order the source has: blocks of rows that lie side by
    side come from all days. sizes: rows of each group, or None without groups.
    """
    draw = np.random.default_rng(seed)
    if sizes is None:
        return draw.permutation(count)
    order = draw.permutation(len(sizes))
    begin = np.empty(len(sizes), np.int64)
    begin[order] = np.cumsum(sizes[order]) - sizes[order]
    inside = np.arange(count) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.repeat(begin, sizes) + inside


def join(days: Iterable[Rows], places: NDArray[np.int64]) -> Rows:
    """The rows of days, each at its place. Memory holds a second copy of one day at a time.

    Raises ValueError if the days have another number of rows than there are places.
    """
    joined: Rows | None = None
    numbers = np.empty(len(places), np.int32)
    numbers[places] = np.arange(len(places), dtype=np.int32)
    sizes: list[NDArray[np.int64]] = []
    begin = 0
    for day in days:
        joined = _allocate(day, len(places)) if joined is None else joined
        where = places[begin : begin + len(day)]
        if len(where) < len(day):
            raise ValueError(f"{begin + len(day)} rows or more instead of {len(places)}")
        for name in ("numeric", "places", "label", "weight"):
            to, found = getattr(joined, name), getattr(day, name)
            if to is not None:
                to.numpy()[where] = found.numpy()
        if day.sizes is not None:
            sizes.append(day.sizes.numpy())
        begin += len(day)
    if joined is None or begin != len(places):
        raise ValueError(f"{begin} rows instead of {len(places)}")
    in_order = _in_order(np.concatenate(sizes), places) if sizes else None
    return replace(joined, sizes=in_order, number=torch.from_numpy(numbers))


def _in_order(sizes: NDArray[np.int64], places: NDArray[np.int64]) -> Tensor:
    """The sizes of groups in the order of the places of their first rows."""
    return torch.from_numpy(sizes[np.argsort(places[np.cumsum(sizes) - sizes])])


def _allocate(like: Rows, count: int) -> Rows:
    def empty(tensor: Tensor) -> Tensor:
        return tensor.new_empty((count, *tensor.shape[1:]))

    weight = None if like.weight is None else empty(like.weight)
    return Rows(
        numeric=empty(like.numeric), places=empty(like.places), label=empty(like.label), weight=weight, sizes=None
    )
