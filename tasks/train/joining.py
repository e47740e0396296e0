"""The rows of all days in one table, in one random order."""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tasks.train.data import Rows, layout_of
from tasks.train.table import Builder, Columns, Layout, MemoryBuilder


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
