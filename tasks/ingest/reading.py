"""Source files as record batches of the declared columns: Parquet, CSV and JSON lines."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from io import TextIOWrapper
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.contracts.columns import LISTS, ColumnType
from ratchet.contracts.csv_format import CsvFormat
from ratchet.store.disk import disk_fault
from tasks.ingest import json_lines
from tasks.ingest.csv_files import read_csv
from tasks.ingest.csv_remedies import remedy_of
from tasks.ingest.declared import rejection, require, to_snapshot
from tasks.ingest.text_files import beginning, open_text
from tasks.ingest.traits import SourceTraits
from tasks.ingest.writing import rows_at_once

_PARQUET_MAGIC = b"PAR1"
_ANY_CSV = CsvFormat()
_SHOWN = 300
"""Characters of an error of Arrow, which shows a whole row."""


def read(
    path: Path,
    *,
    day: date,
    name: str,
    columns: dict[str, ColumnType],
    traits: SourceTraits,
    csv: CsvFormat = _ANY_CSV,
    codes: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Iterator[Any]:
    """Read the rows of a file as batches in the snapshot's schema.

    name: of the file in the source, for messages. csv: what the pipeline file says of CSV files. codes: the texts of
    the columns that have codes, by their name in the source. Skips columns that are
    not declared, and notes them in `traits`. Raises DataRejected that names day, file, column, found and declared type.
    Maps no file into memory: a file that is cut while it is read gives an error, and not the end of this process.
    """
    with _disk_of_source(day, name):
        if path.stat().st_size == 0:
            raise rejection(day, name, "the file is empty", remedy="deliver the day's rows, or remove the file")
        with path.open("rb") as file:
            parquet = file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
        lines = not parquet and json_lines.is_json(beginning(path), name)
        try:
            if parquet or lines:
                yield from (_parquet if parquet else _json)(path, day, name, columns, traits)
            else:
                yield from read_csv(path, day, name, columns, traits, csv, codes)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeError, OSError) as error:
            if disk_fault(error) is not None:
                raise
            message = str(error).partition("\n")[0]
            kind = "Parquet" if name.endswith(".parquet") else "JSON lines" if lines else "Parquet or CSV"
            remedy = _remedy_of_parquet(message) if parquet else remedy_of(message, beginning(path), csv)
            remedy = json_lines.remedy_of(message) if lines else remedy
            raise rejection(day, name, f"cannot be read as {kind}: {message[:_SHOWN]}", remedy=remedy) from error


@contextmanager
def _disk_of_source(day: date, name: str) -> Iterator[None]:
    """An error of the disk, or of the host that it is on, says nothing about the rows."""
    try:
        yield
    except OSError as error:
        if (kind := disk_fault(error)) is None:
            raise
        said = f"{day}: {name} cannot be read now: {os.strerror(error.errno or 0)}"
        raise kind(said, remedy="check the disk of the source; run again if no retry follows") from error


def _remedy_of_parquet(message: str) -> str:
    if "Expected all lists to be of size" in message:  # Arrow reads no missing lists of a fixed size from Parquet
        return "deliver vectors that may be missing as lists, not as lists of a fixed size"
    return "deliver the file again"


def _parquet(path: Path, day: date, name: str, columns: dict[str, ColumnType], traits: SourceTraits) -> Iterator[Any]:
    with pq.ParquetFile(path, memory_map=False) as file:
        present = file.schema_arrow
        require(present.names, day=day, name=name, columns=columns)
        traits.extra |= {*present.names} - {*columns}
        # Check the types before the rows, so that a file without rows cannot hide another schema.
        to_snapshot(_no_rows(present, columns), day, name, columns, traits)
        size = rows_at_once(_values(file.metadata, columns))
        for batch in file.iter_batches(batch_size=size, columns=list(columns), use_threads=False):
            yield to_snapshot(batch, day, name, columns, traits)


def _values(metadata: Any, columns: dict[str, ColumnType]) -> float:
    """The values in the lists of a row of a Parquet file, on average."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    of_lists = [one for one in chunks if columns.get(one.path_in_schema.partition(".")[0], "") in LISTS]
    values: int = sum(one.num_values for one in of_lists)
    return values / max(int(metadata.num_rows), 1)


def _no_rows(schema: Any, columns: dict[str, ColumnType]) -> Any:
    """A batch of the columns without a row. From nulls, because pyarrow would load pandas to inspect a list."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, schema.field(name).type) for name in columns], names=list(columns))


def _json(path: Path, day: date, name: str, columns: dict[str, ColumnType], traits: SourceTraits) -> Iterator[Any]:
    """JSON lines. A column without a key on the first lines and without a value on any is not there."""
    try:
        with open_text(path) as stream, TextIOWrapper(stream, "utf-8-sig") as lines:
            present = json_lines.keys(lines)
    except ValueError as error:
        raise rejection(
            day, name, f"cannot be read as JSON lines: {error}", remedy="deliver an object on each line"
        ) from error
    traits.extra |= {*present} - {*columns}
    absent = {*columns} - {*present}
    with open_text(path) as stream:
        for batch in json_lines.batches(stream, columns):
            absent -= {column for column in absent if batch.column(column).null_count < len(batch)}
            yield to_snapshot(batch, day, name, columns, traits, text=True)
    require(
        [name for name in dict.fromkeys((*present, *columns)) if name not in absent],
        day=day,
        name=name,
        columns=columns,
    )
