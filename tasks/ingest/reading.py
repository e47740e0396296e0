"""Source files as record batches of the declared columns: Parquet, CSV and JSON lines."""

from collections.abc import Iterator
from datetime import date
from io import TextIOWrapper
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from ratchet.contracts.columns import LISTS, ColumnType
from ratchet.contracts.errors import DataRejected
from tasks.ingest import json_lines
from tasks.ingest.casting import LossyCast, cast
from tasks.ingest.csv_remedies import header_remedy, remedy_of
from tasks.ingest.schema import ARROW, arrow_schema
from tasks.ingest.traits import SourceTraits
from tasks.ingest.writing import rows_at_once

_CSV_BLOCK = 8 << 20
_PARQUET_MAGIC = b"PAR1"
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}


def rejection(day: date, name: str, what: str, *, remedy: str) -> DataRejected:
    """The error for a source that ingest refuses. name: of the file, the table or the query."""
    return DataRejected(f"{day}: {name}: {what}", remedy=remedy)


def read(path: Path, *, day: date, name: str, columns: dict[str, ColumnType], traits: SourceTraits) -> Iterator[Any]:
    """Read the rows of a file as batches in the snapshot's schema.

    name: of the file in the source, for messages; its ending names the compression of a text file, whatever the name of
    the local copy is. Skips columns that are not declared, and notes them in `traits`. Raises DataRejected that names
    day, file, column, found and declared type. Maps no file into memory: a file that is cut while it is read gives an
    error, and not the end of this process.
    """
    if path.stat().st_size == 0:
        raise rejection(day, name, "the file is empty", remedy="deliver the day's rows, or remove the file")
    with path.open("rb") as file:
        parquet = file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
    lines = not parquet and json_lines.is_json(_begin(path, name), name)
    try:
        yield from (_parquet if parquet else _json if lines else _csv)(path, day, name, columns, traits)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        message = str(error).partition("\n")[0]
        kind = "Parquet" if name.endswith(".parquet") else "JSON lines" if lines else "Parquet or CSV"
        remedy = _remedy_of_parquet(message) if parquet else remedy_of(message, _begin(path, name))
        remedy = json_lines.remedy_of(message) if lines else remedy
        raise rejection(day, name, f"cannot be read as {kind}: {message}", remedy=remedy) from error


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


def _csv(path: Path, day: date, name: str, columns: dict[str, ColumnType], traits: SourceTraits) -> Iterator[Any]:
    """CSV with a header; an empty field is missing, a quoted empty one is an empty string."""
    types, present = _csv_types(path, name, columns)
    _note_zones(path, day, name, types, traits)
    require(present, day=day, name=name, columns=columns, remedy=header_remedy(present, _begin(path, name)))
    traits.extra |= {*present} - {*columns}
    convert = pa.csv.ConvertOptions(
        column_types=types,
        include_columns=list(columns),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    with (
        _text(path, name) as stream,
        pa.csv.open_csv(
            stream, convert_options=convert, read_options=pa.csv.ReadOptions(block_size=_CSV_BLOCK, use_threads=False)
        ) as reader,
    ):
        for batch in reader:
            yield to_snapshot(batch, day, name, columns, traits, text=True)


def _json(path: Path, day: date, name: str, columns: dict[str, ColumnType], traits: SourceTraits) -> Iterator[Any]:
    """JSON lines. A column without a key on the first lines and without a value on any is not there."""
    try:
        with _text(path, name) as stream, TextIOWrapper(stream, "utf-8-sig") as lines:
            present = json_lines.keys(lines)
    except ValueError as error:
        raise rejection(
            day, name, f"cannot be read as JSON lines: {error}", remedy="deliver an object on each line"
        ) from error
    traits.extra |= {*present} - {*columns}
    absent = {*columns} - {*present}
    with _text(path, name) as stream:
        for batch in json_lines.batches(stream, columns):
            absent -= {column for column in absent if batch.column(column).null_count < len(batch)}
            yield to_snapshot(batch, day, name, columns, traits, text=True)
    require(
        [name for name in dict.fromkeys((*present, *columns)) if name not in absent],
        day=day,
        name=name,
        columns=columns,
    )


def _text(path: Path, name: str) -> Any:
    """The text of a file as a stream, decompressed as the file's name in the source says."""
    return pa.input_stream(str(path), compression=_COMPRESSIONS.get(PurePosixPath(name).suffix.lower()))


def _begin(path: Path, name: str) -> bytes:
    """The first bytes of a file's text; none if it cannot be read."""
    try:
        with _text(path, name) as stream:
            begin: bytes = stream.read(6)
            return begin
    except OSError:
        return b""


def _csv_types(path: Path, name: str, columns: dict[str, ColumnType]) -> tuple[dict[str, Any], list[str]]:
    """The types to parse, and the header. A timestamp column has a zone if its first rows have one."""
    with (
        _text(path, name) as stream,
        pa.csv.open_csv(stream, read_options=pa.csv.ReadOptions(block_size=1 << 20, use_threads=False)) as reader,
    ):
        present = reader.schema.names
        found = {field.name: field.type for field in reader.schema}
    types = {column: pa.string() if kind in LISTS else ARROW[kind] for column, kind in columns.items()}
    for column, kind in columns.items():
        seen = found.get(column)
        if kind == "timestamp" and seen is not None and pa.types.is_timestamp(seen) and seen.tz:
            types[column] = pa.timestamp("us", "UTC")
    return types, present


def _note_zones(path: Path, day: date, name: str, types: dict[str, Any], traits: SourceTraits) -> None:
    """Note the zones in the first rows of a CSV file: the parser returns all of them in UTC."""
    zoned = {column: pa.string() for column, kind in types.items() if pa.types.is_timestamp(kind) and kind.tz}
    if not zoned:
        return
    convert = pa.csv.ConvertOptions(column_types=zoned, include_columns=list(zoned), strings_can_be_null=True)
    read = pa.csv.ReadOptions(block_size=1 << 20, use_threads=False)
    with _text(path, name) as stream, pa.csv.open_csv(stream, convert_options=convert, read_options=read) as reader:
        rows = reader.read_next_batch()
    for column in zoned:
        traits.note(rows.column(column), column, day=day, name=name)


def require(
    present: list[str], *, day: date, name: str, columns: dict[str, ColumnType], remedy: str | None = None
) -> None:
    """Refuse a source that lacks a declared column, or has two of its name. remedy: what to do if one is missing."""
    if twice := [column for column in columns if present.count(column) > 1]:
        raise rejection(
            day,
            name,
            f"column {twice[0]} occurs {present.count(twice[0])} times",
            remedy=f"deliver {twice[0]} once",
        )
    missing = [column for column in columns if column not in present]
    if missing:
        listed = ", ".join(missing)
        many = "columns" if len(missing) > 1 else "column"
        raise rejection(
            day,
            name,
            f"{many} {listed} missing; the file has {', '.join(present) or 'none'}",
            remedy=remedy or f"deliver {listed}, or change columns.{missing[0]} in the pipeline file",
        )


def to_snapshot(
    batch: Any, day: date, name: str, columns: dict[str, ColumnType], traits: SourceTraits, *, text: bool = False
) -> Any:
    """Cast a batch to the declared columns, in the declared order and types; notes which timestamps have a zone."""
    arrays = []
    for column, kind in columns.items():
        values = batch.column(column)
        if kind == "timestamp":
            traits.note(values, column, day=day, name=name)
        try:
            arrays.append(cast(values, kind, text=text))
        except LossyCast as error:
            raise rejection(
                day,
                name,
                f"column {column} is {values.type}, declared {kind}: {error.why}",
                remedy=f"correct the source, or change columns.{column}.type",
            ) from error
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))
