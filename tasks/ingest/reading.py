"""Source files as record batches of the declared columns: Parquet and CSV."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from ratchet.contracts.columns import ColumnType
from ratchet.contracts.errors import DataRejected
from tasks.ingest.casting import LossyCast, cast
from tasks.ingest.schema import ARROW, arrow_schema
from tasks.ingest.writing import ROW_GROUP

_CSV_BLOCK = 8 << 20
_PARQUET_MAGIC = b"PAR1"


def rejection(day: date, name: str, what: str, *, remedy: str) -> DataRejected:
    """The error for a source that ingest refuses. name: of the file, the table or the query."""
    return DataRejected(f"{day}: {name}: {what}", remedy=remedy)


def read(path: Path, *, day: date, name: str, columns: dict[str, ColumnType], extra: set[str]) -> Iterator[Any]:
    """Read the rows of a file as batches in the snapshot's schema. name: the name of the file in messages.

    Skips columns that are not declared, and adds their names to `extra`. Raises DataRejected that names day, file,
    column, found and declared type.
    """
    if path.stat().st_size == 0:
        raise rejection(day, name, "the file is empty", remedy="deliver the day's rows, or remove the file")
    try:
        with path.open("rb") as file:
            parquet = file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
        yield from (_parquet if parquet else _csv)(path, day, name, columns, extra)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        kind = "Parquet" if path.suffix == ".parquet" else "Parquet or CSV"
        raise rejection(
            day, name, f"cannot be read as {kind}: {str(error).partition(chr(10))[0]}", remedy="deliver the file again"
        ) from error


def _parquet(path: Path, day: date, name: str, columns: dict[str, ColumnType], extra: set[str]) -> Iterator[Any]:
    with pq.ParquetFile(path, memory_map=True) as file:
        present = file.schema_arrow
        require(present.names, day=day, name=name, columns=columns)
        extra |= {*present.names} - {*columns}
        # Check the types before the rows, so that a file without rows cannot hide another schema.
        to_snapshot(_no_rows(present, columns), day, name, columns)
        for batch in file.iter_batches(batch_size=ROW_GROUP, columns=list(columns), use_threads=False):
            yield to_snapshot(batch, day, name, columns)


def _no_rows(schema: Any, columns: dict[str, ColumnType]) -> Any:
    """A batch of the columns without a row. From nulls, because pyarrow would load pandas to inspect a list."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, schema.field(name).type) for name in columns], names=list(columns))


def _csv(path: Path, day: date, name: str, columns: dict[str, ColumnType], extra: set[str]) -> Iterator[Any]:
    """CSV with a header; an empty field is missing, a quoted empty one is an empty string."""
    types, present = _csv_types(path, columns)
    require(present, day=day, name=name, columns=columns)
    extra |= {*present} - {*columns}
    convert = pa.csv.ConvertOptions(
        column_types=types,
        include_columns=list(columns),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    with (
        pa.input_stream(str(path), compression="detect") as stream,
        pa.csv.open_csv(
            stream, convert_options=convert, read_options=pa.csv.ReadOptions(block_size=_CSV_BLOCK, use_threads=False)
        ) as reader,
    ):
        for batch in reader:
            yield to_snapshot(batch, day, name, columns)


def _csv_types(path: Path, columns: dict[str, ColumnType]) -> tuple[dict[str, Any], list[str]]:
    """The types to parse, and the header. A timestamp column has a zone if its first rows have one."""
    with (
        pa.input_stream(str(path), compression="detect") as stream,
        pa.csv.open_csv(stream, read_options=pa.csv.ReadOptions(block_size=1 << 20, use_threads=False)) as reader,
    ):
        present = reader.schema.names
        found = {field.name: field.type for field in reader.schema}
    types = {name: ARROW[kind] for name, kind in columns.items()}
    for name, kind in columns.items():
        seen = found.get(name)
        if kind == "timestamp" and seen is not None and pa.types.is_timestamp(seen) and seen.tz:
            types[name] = pa.timestamp("us", "UTC")
    return types, present


def require(present: list[str], *, day: date, name: str, columns: dict[str, ColumnType]) -> None:
    """Refuse a source that lacks a declared column, or has two of its name."""
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
            remedy=f"deliver {listed}, or change columns.{missing[0]} in the pipeline file",
        )


def to_snapshot(batch: Any, day: date, name: str, columns: dict[str, ColumnType], *, text: bool = False) -> Any:
    """Cast a batch to the declared columns, in the declared order and types."""
    arrays = []
    for column, kind in columns.items():
        values = batch.column(column)
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
