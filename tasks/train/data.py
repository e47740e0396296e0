"""Encoded days as tensors, and the order in which a training meets their rows.

The order is a pure function of (seed, epoch, step, world size): nothing of the reader has to be saved to resume.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

CHUNK_ROWS = 64
"""Rows that stay neighbours. Copying runs of rows is several times faster than gathering single ones; a batch is made
of many runs from all over the training days, so that its rows are as good as independent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows next to each other.

    numeric float32 [rows, k]; places int64 [rows, c]; label float32 (int64 for classes); weight float32, or None;
    sizes int64 [groups], rows of each group in order, or None without groups.
    """

    numeric: Tensor
    places: Tensor
    label: Tensor
    weight: Tensor | None
    sizes: Tensor | None

    def __len__(self) -> int:
        """How many rows."""
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


class Reader:
    """Hands out batches of rows in shuffled chunks; groups stay whole."""

    def __init__(self, rows: Rows, *, batch_size: int, seed: int, chunk_rows: int = CHUNK_ROWS) -> None:
        self._rows = rows
        self._seed = seed
        starts, self._groups = _chunks(rows, chunk_rows)
        self._begin, self._end = starts[:-1], starts[1:]
        self._batch_size = batch_size

    def epoch(self, epoch: int, *, rank: int = 0, world_size: int = 1) -> list[NDArray[np.int64]]:
        """The batches of an epoch as chunk numbers: as many for every rank; over all ranks each chunk comes once."""
        order = np.random.default_rng((self._seed, epoch)).permutation(len(self._begin))
        filled = np.cumsum(self._end[order] - self._begin[order])
        cuts = np.searchsorted(filled, np.arange(self._batch_size, filled[-1], self._batch_size)) + 1
        batches = [batch for batch in np.split(order, np.unique(cuts)) if len(batch)]
        if world_size == 1:
            return batches
        return [batch[rank::world_size] for batch in batches]

    def read(self, chunks: NDArray[np.int64]) -> Rows:
        """The rows of some chunks, copied next to each other."""
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
    """(first row of each chunk and the end, first group of each chunk and the end or None)."""
    if rows.sizes is None:
        return np.append(np.arange(0, len(rows), chunk_rows), len(rows)), None
    ends = np.cumsum(rows.sizes.numpy())
    wanted = np.arange(chunk_rows, len(rows) + chunk_rows, chunk_rows)
    last = np.unique(np.minimum(np.searchsorted(ends, wanted), len(ends) - 1)) + 1  # groups in each chunk, counted up
    groups = np.append(0, last)
    return np.append(0, ends[last - 1]), groups


def join(days: Sequence[Rows]) -> Rows:
    """Days after one another."""

    def together(tensors: Sequence[Tensor | None]) -> Tensor | None:
        there = [tensor for tensor in tensors if tensor is not None]
        return torch.cat(there) if there else None

    return Rows(
        numeric=torch.cat([day.numeric for day in days]),
        places=torch.cat([day.places for day in days]),
        label=torch.cat([day.label for day in days]),
        weight=together([day.weight for day in days]),
        sizes=together([day.sizes for day in days]),
    )
