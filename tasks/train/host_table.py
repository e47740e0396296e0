"""One table of rows for all ranks of a host: its first rank reads and joins the days, and each maps what it made.

The table is a file without a name, in memory or on a disk, as large as it would be for one process. So the ranks of a
host need its memory once, and nothing is left of it when they have ended, in whatever way.

A change here violates the promise of the project when ranks read other rows, or can change those of each other.
"""

import warnings
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tasks.train.data import Rows
from tasks.train.nameless_file import NamelessFile
from tasks.train.ranks import RankLost, Ranks
from tasks.train.table import Builder, Layout, MemoryBuilder, Table, Words


class SharedBuilder:
    """Builds a table in memory that other processes can map."""

    def __init__(self, layout: Layout, rows: int) -> None:
        self._layout, self._file = layout, NamelessFile.in_memory(rows * layout.row_bytes)
        self._words = np.frombuffer(self._file.map(writable=True), np.int32).reshape(rows, layout.width)

    def add(self, words: Words, places: NDArray[np.int32]) -> None:
        """Put rows at their places."""
        self._words[places] = words

    def finish(self) -> Table:
        """The table."""
        return Table(words=torch.from_numpy(self._words), layout=self._layout, file=self._file)


def read_once(ranks: Ranks, read: Callable[[Callable[[Layout, int], Builder]], Rows]) -> Rows:
    """The rows that `read` joins in the first rank of this host, in each rank of it. Raises RankLost.

    read: given what builds a table in memory.
    """
    host = ranks.of_host
    if host.size == 1:
        return read(MemoryBuilder)
    files = list[NamelessFile]()  # open until all ranks have opened them
    found = host.broadcast(_described(read(SharedBuilder), files) if host.is_first else None)
    assert found is not None
    try:
        rows = _opened(found)
    except FileNotFoundError as error:
        raise RankLost(f"rank {ranks.rank} lost the rank that read the rows: {error}") from error
    host.sum([torch.zeros(1)])
    return rows


def _described(rows: Rows, files: list[NamelessFile]) -> dict[str, Any]:
    """Where the parts of the rows are, and what they hold. files: takes what has to stay open."""
    table = rows.table
    assert table is not None
    assert table.file is not None

    def copied(tensor: Tensor | None) -> str | None:
        if tensor is None:
            return None
        files.append(NamelessFile.in_memory(0))
        files[-1].append(tensor.numpy())
        return files[-1].path

    files.append(table.file)
    layout = {**asdict(table.layout), "label": str(table.layout.label).removeprefix("torch.")}
    parts = {"words": table.file.path, "sizes": copied(rows.sizes), "number": copied(rows.number)}
    return {"layout": layout, "is_in_memory": table.file.is_in_memory, **parts}


def _opened(found: dict[str, Any]) -> Rows:
    layout = Layout(**{**found["layout"], "label": getattr(torch, found["layout"]["label"])})
    file = NamelessFile.opened(found["words"])
    table = Table(
        words=_mapped(file, np.int32).view(-1, layout.width),
        layout=layout,
        file=None if found["is_in_memory"] else file,
    )
    sizes, number = (
        None if found[name] is None else _mapped(NamelessFile.opened(found[name]), kind)
        for name, kind in (("sizes", np.int64), ("number", np.int32))
    )
    return Rows.of(table, sizes=sizes, number=number)


def _mapped(file: NamelessFile, kind: type[np.generic]) -> Tensor:
    """What a file holds, as memory that cannot be written: whoever tries ends at once, and changes nobody's rows."""
    array = np.frombuffer(file.map(), kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, that it knows no memory that cannot be written
        return torch.from_numpy(array)
