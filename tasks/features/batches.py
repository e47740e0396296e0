"""The labelled rows of a day, as batches that fit into memory.

A batch is a row group of the day's file. Where derive needs whole groups, that is in a ranking, rows are dealt into
files first, one for each batch, in one pass over the day. A day of at most ROWS rows with groups is one batch.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ratchet.contracts.columns import Column

ROWS = 131_072
"""Rows of a batch, at most. One of whole groups has up to a group more, or a 256th of the day."""
_MOST = 256
"""Files into which a day is dealt."""

Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Some rows of a day. read: reads them. order: how to sort them by group; None to leave them as they are."""

    read: Callable[[], "pa.Table"]
    order: NDArray[np.intp] | None = None


def read_columns(path: Path, names: list[str]) -> "pa.Table":
    """Some columns of a day's file."""
    with pq.ParquetFile(path) as file:
        return file.read(names)


def incomplete(path: Path, columns: Mapping[str, Column]) -> frozenset[str]:
    """The columns with a missing value anywhere in the day, as the file's statistics say."""
    found = set[str]()
    with pq.ParquetFile(path) as file:
        for group in range(file.metadata.num_row_groups):
            of_group = file.metadata.row_group(group)
            for place in range(of_group.num_columns):
                column = of_group.column(place)
                statistics = column.statistics
                if statistics is None or not statistics.has_null_count or statistics.null_count:
                    found.add(column.path_in_schema)
    return frozenset(name for name, column in columns.items() if name in found and not column.derived)


def batches(
    path: Path,
    names: list[str],
    labelled: NDArray[np.bool_],
    codes: Codes | None,
    *,
    as_dictionary: list[str],
    whole_groups: Path | None,
) -> Iterator[Batch]:
    """The batches of some columns of a day. labelled: of all rows of the file. codes: the group of each labelled row.

    as_dictionary: columns of text to read as dictionaries. whole_groups: where a batch has to have whole groups, a
    folder for the files of them.
    """
    read = partial(_read_groups, path, names, as_dictionary)
    if codes is not None and len(codes) <= ROWS:
        yield from [Batch(read=partial(read, labelled), order=np.argsort(codes, kind="stable"))] if len(codes) else []
    elif codes is not None and whole_groups is not None:
        yield from _dealt(path, names, labelled, codes, whole_groups)
    else:
        with pq.ParquetFile(path) as file:
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        ends = np.cumsum(sizes)
        for group, (end, size) in enumerate(zip(ends, sizes, strict=True)):
            of_group = labelled[end - size : end]
            if of_group.any():
                yield Batch(read=partial(read, of_group, [group]))


def _read_groups(
    path: Path,
    names: list[str],
    as_dictionary: list[str],
    labelled: NDArray[np.bool_],
    groups: list[int] | None = None,
) -> "pa.Table":
    """The labelled rows of some row groups, or of all."""
    with pq.ParquetFile(path, read_dictionary=as_dictionary) as file:
        every = [*range(file.num_row_groups)] if groups is None else groups
        table = file.read_row_groups(every, names, use_threads=False)
    return table if labelled.all() else table.filter(pa.array(labelled))


def _dealt(path: Path, names: list[str], labelled: NDArray[np.bool_], codes: Codes, folder: Path) -> Iterator[Batch]:
    """Batches of neighbouring groups. The rows of a batch are in the order of the day."""
    counts = np.bincount(codes)
    size = max(ROWS, -(-len(codes) // _MOST))
    of_row = ((np.cumsum(counts) - counts) // size)[codes]
    files = _deal(batches(path, names, labelled, None, as_dictionary=[], whole_groups=None), of_row, folder)
    by_batch = np.split(codes[np.argsort(of_row, kind="stable")], np.cumsum(np.bincount(of_row))[:-1])
    for number, own in enumerate(by_batch):
        if len(own):
            yield Batch(read=partial(_take, files[number]), order=np.argsort(own, kind="stable"))


def _take(path: Path) -> "pa.Table":
    """The rows of a file, which is then deleted."""
    with pa.OSFile(str(path)) as file:
        table = pa.ipc.open_file(file).read_all()
    path.unlink()
    return table


def _deal(rows: Iterator[Batch], of_row: Codes, folder: Path) -> dict[int, Path]:
    """Write each row to the file of its batch. of_row: the batch of each row. Returns the files by batch."""
    writers: dict[int, pa.ipc.RecordBatchFileWriter] = {}
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    paths = {number: folder / f"{number}.arrow" for number in range(int(of_row.max()) + 1)}
    begin = 0
    try:
        for part in rows:
            table = part.read()
            own = of_row[begin : begin + table.num_rows]
            begin += table.num_rows
            ordered = table.take(pa.array(np.argsort(own, kind="stable")))
            numbers, starts = np.unique(np.sort(own), return_index=True)
            for number, start, end in zip(numbers, starts, [*starts[1:], len(own)], strict=True):
                if number not in writers:
                    writers[number] = pa.ipc.new_file(str(paths[number]), table.schema, options=options)
                writers[number].write_table(ordered.slice(start, end - start))
    finally:
        for writer in writers.values():
            writer.close()
    return paths
