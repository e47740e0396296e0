"""Encoded days from the store as the rows of a network, in one random order: in memory, or on a disk.

A change here violates the promise of the project when the bits of a model depend on where its table is, or when a day
is read without being compared with its digest.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.summaries import FeatureDay, FeatureSet
from ratchet.model.arrays import map_arrays
from ratchet.model.fitted_state import Replaced
from ratchet.model.networks import Predictor
from ratchet.runtime.context import StageContext
from tasks.train.data import Rows
from tasks.train.disk_table import DiskBuilder
from tasks.train.joining import join, shuffled
from tasks.train.table import Builder, Layout, MemoryBuilder

IN_MEMORY = 0.5
"""The share of resources.train.memory that a table may take: the rest is for weights, their moments, and a step."""
_BLOCK_ROWS = 1 << 16
"""Rows that are prepared at once."""
_NUMBER_BYTES = 4
"""Of each row, its number in its days."""
NOTHING: Mapping[date, Replaced] = {}
_LABELS = {"multiclass": torch.int64, "regression": torch.float64}


def read(
    ctx: StageContext,
    network: Predictor,
    features: FeatureSet,
    *parts: Sequence[date],
    of_days: Mapping[date, Replaced] = NOTHING,
    in_memory: Callable[[Layout, int], Builder] = MemoryBuilder,
    alive: Callable[[], None] = lambda: None,
) -> Rows:
    """The rows of the days of each part, part by part; inside a part days are shuffled, and groups stay whole.

    Standardised by the network, which is in the host's memory. Each file is verified. of_days: of days that the network
    is trained on, the statistics of categories that their rows get in place of the network's. in_memory: builds the
    table if it fits there. alive: called after each block of rows.
    """
    encoded = [features.of(tuple(days)) for days in parts]
    days = [day for part in encoded for day in part]
    for day in days:
        if {"numeric", "categorical", "label"} - set(day.arrays):
            raise RatchetError(f"{day.day}: arrays are missing", remedy="run features again with --rebuild")
    build = _where(ctx, network, days, in_memory)
    sizes = _sizes(ctx, days)
    places = np.empty(sum(day.rows for day in days), np.int32)
    begin, group = 0, 0
    for part in encoded:
        count = sum(day.rows for day in part)
        last = group if sizes is None else group + int(np.searchsorted(np.cumsum(sizes[group:]), count, side="right"))
        in_part = None if sizes is None else sizes[group:last]
        places[begin : begin + count] = shuffled(count, in_part, ctx.spec.train.seed) + np.int32(begin)
        begin, group = begin + count, last
    return join(_blocks(ctx, network, days, of_days, alive), places, sizes=sizes, build=build)


def rows_of(arrays: Mapping[str, NDArray[np.generic]], network: Predictor, statistics: Tensor | None = None) -> Rows:
    """The arrays of summaries.FeatureDay as rows of a network; ids are looked up once for all epochs.

    statistics: of categories, in place of the network's.
    """
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    preprocess = network.preprocess
    places = preprocess.places(tensors["categorical"])
    return Rows(
        numeric=preprocess.standardise(preprocess.with_statistics(tensors["numeric"], places, statistics)),
        places=places,
        label=tensors["label"],
        weight=tensors.get("weight"),
        sizes=tensors["group"].diff() if "group" in tensors else None,
    )


def statistics_of_day(network: Predictor, replaced: Replaced | None) -> Tensor | None:
    """The statistics of categories for the rows of a day; None for those of the network."""
    if replaced is None:
        return None
    found = network.preprocess.statistics.clone()
    found[torch.from_numpy(replaced.places)] = torch.from_numpy(replaced.values)
    return found


def missing(rows: Rows) -> Tensor:
    """Whether a number is missing in any row, by column. Copies block by block: the rows may be on a disk."""
    table, found = rows.packed(), torch.zeros(rows.numeric.shape[1], dtype=torch.bool)
    for begin in range(0, len(rows), _BLOCK_ROWS):
        words = table.gather(np.array([begin]), np.array([min(begin + _BLOCK_ROWS, len(rows))]))
        found |= table.layout.columns(words).numeric.isnan().any(0)
    return found


def _where(
    ctx: StageContext, network: Predictor, days: Sequence[FeatureDay], in_memory: Callable[[Layout, int], Builder]
) -> Callable[[Layout, int], Builder]:
    """What builds the table. Logs where it is, and why."""
    layout = Layout(
        label=_LABELS.get(ctx.spec.train.objective, torch.float32),
        weighted=any("weight" in day.arrays for day in days),
        numeric=len(network.preprocess.mean),
        categorical=len(network.preprocess.tables),
    )
    rows = sum(day.rows for day in days)
    needed, most = rows * (layout.row_bytes + _NUMBER_BYTES), int(IN_MEMORY * ctx.spec.resources["train"].memory)
    text = f"{rows:,} rows take {needed:,} bytes, and {IN_MEMORY:.0%} of resources.train.memory are {most:,}"
    fits = needed <= most
    if fits or _is_memory(ctx.disk):
        left = "" if fits else f"; {ctx.disk} is in memory too: name a cache on a disk, or raise resources.train.memory"
        ctx.log.event(
            "table", f"the rows are in memory: {text}{left}", level="info" if fits else "warning", bytes=needed
        )
        return in_memory
    ctx.log.event("table", f"the rows are on the disk of {ctx.disk}: {text}", bytes=needed)
    return partial(DiskBuilder, folder=ctx.disk)


def _is_memory(folder: Path) -> bool:
    """Whether the files of a folder are in memory, as those of a container's /tmp."""
    device = folder.stat().st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    kinds = {line.partition(" - ")[2].split(" ")[0] for line in lines if line.split(" ")[2] == name}
    return bool(kinds & {"tmpfs", "ramfs"})


def _sizes(ctx: StageContext, days: Sequence[FeatureDay]) -> NDArray[np.int64] | None:
    """The rows of each group of all days, or None without groups."""
    groups = [day.arrays["group"] for day in days if "group" in day.arrays]
    sizes = [np.diff(array) for array in map_arrays(ctx.store, groups, ctx.disk, threads=_threads(ctx))]
    return np.concatenate(sizes) if sizes else None


def _blocks(
    ctx: StageContext,
    network: Predictor,
    days: Sequence[FeatureDay],
    of_days: Mapping[date, Replaced],
    alive: Callable[[], None],
) -> Iterator[Rows]:
    """The rows of the days, block by block; files are verified ahead."""
    names = [[name for name in day.arrays if name != "group"] for day in days]
    files = [day.arrays[name] for day, of_day in zip(days, names, strict=True) for name in of_day]
    arrays = map_arrays(ctx.store, files, ctx.disk, threads=_threads(ctx))
    for day, of_day in zip(days, names, strict=True):
        found = {name: next(arrays) for name in of_day}
        statistics = statistics_of_day(network, of_days.get(day.day))
        for begin in range(0, len(found["label"]), _BLOCK_ROWS):
            # copied: a mapped array cannot be written, and torch warns of that
            block = {name: np.array(array[begin : begin + _BLOCK_ROWS]) for name, array in found.items()}
            yield rows_of(block, network, statistics)
            alive()


def _threads(ctx: StageContext) -> int:
    """Threads that verify files."""
    return max(1, round(ctx.spec.resources["train"].cpus))
