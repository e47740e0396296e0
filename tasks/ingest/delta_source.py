"""Reads the rows of one day from a Delta table."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from ratchet.contracts import paths
from ratchet.contracts.columns import ColumnType
from ratchet.contracts.errors import ConfigurationError, NoAnswer, SourceChanged
from ratchet.contracts.request import SourceDay
from ratchet.contracts.source import DeltaSource
from ratchet.runtime.delta_errors import one_line
from ratchet.runtime.delta_listing import SORTED, delta_days, open_table
from tasks.ingest.declared import rejection, require, to_snapshot
from tasks.ingest.traits import SourceTraits
from tasks.ingest.writing import ROW_GROUP

_SHOWN = 300
"""Characters of an error of Arrow."""


def read_delta(
    root: str, source: DeltaSource, planned: SourceDay, columns: dict[str, ColumnType], traits: SourceTraits
) -> Iterator[Any]:
    """Read a day's rows as batches in the snapshot's schema, in the order of the table's file names.

    Those of a table with deletion vectors or mapped columns have no order, see SORTED. Raises SourceChanged if the
    day's files have changed since the run was planned.
    """
    day, date_column = planned.day, source.date_column
    kind, _, number = planned.files[0].identity.rpartition(":")
    by_version = kind.startswith(("version", SORTED))
    version = int(number) if by_version else source.version
    try:
        table = open_table(root, version)
        if not by_version and delta_days(root, date_column, [day], version)[0].files != planned.files:
            raise SourceChanged(
                f"{day}: {root}: the table's files of this day changed after the run was planned",
                remedy="wait until its writer has finished, then run again if no retry follows",
            )
        if kind.startswith(SORTED):
            with _whole(root, day):
                yield from _merged(table, root, date_column, day, columns, traits)
            return
        data = table.to_pyarrow_dataset()
    except (DeltaError, OSError) as error:
        raise NoAnswer(f"source.uri: the Delta table {root} cannot be read: {one_line(error)}") from error
    with _whole(root, day):
        yield from _plain(data, root, date_column, day, columns, traits)


@contextmanager
def _whole(root: str, day: date) -> Iterator[None]:
    """Refuse a day of which a file cannot be read."""
    try:
        yield
    except pa.ArrowInvalid as error:
        message = str(error).partition("\n")[0][:_SHOWN]
        remedy = "restore the table, or write the day again"
        raise rejection(day, root, f"a file of the table cannot be read: {message}", remedy=remedy) from error
    except OSError as error:
        raise NoAnswer(f"source.uri: the Delta table {root} cannot be read: {one_line(error)}") from error


def _plain(
    data: Any, root: str, date_column: str, day: date, columns: dict[str, ColumnType], traits: SourceTraits
) -> Iterator[Any]:
    """The rows of a day of a table whose files hold its rows as they are."""
    require(data.schema.names, day=day, name=root, columns=columns)
    wanted = _equals(data.schema.field(date_column).type, date_column, day)
    for fragment in sorted(data.get_fragments(filter=wanted), key=lambda fragment: fragment.path):
        scanner = ds.Scanner.from_fragment(
            fragment, schema=data.schema, columns=list(columns), filter=wanted, batch_size=ROW_GROUP, use_threads=False
        )
        for batch in scanner.to_batches():
            yield to_snapshot(batch, day, root, columns, traits)


def _merged(
    table: DeltaTable, root: str, date_column: str, day: date, columns: dict[str, ColumnType], traits: SourceTraits
) -> Iterator[Any]:
    """The rows of a day as DataFusion reads them: without those that were deleted, under the names of the table."""
    fields = {field.name: str(field.type) for field in table.schema().fields}
    require([*fields], day=day, name=root, columns=columns)
    kind = "date32[day]" if '"date"' in fields[date_column] else fields[date_column]
    _equals(kind, date_column, day)
    literal = f"{'date ' if kind == 'date32[day]' else ''}'{paths.day(day)}'"
    query = " ".join(
        ["select", ", ".join(map(_quoted, columns)), "from source where", _quoted(date_column), "=", literal]
    )
    for batch in pa.RecordBatchReader.from_stream(QueryBuilder().register("source", table).execute(query)):
        yield to_snapshot(batch, day, root, columns, traits)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _equals(kind: Any, date_column: str, day: date) -> Any:
    """The filter `date_column = day`, for a date or text. Raises ConfigurationError for a column of another type."""
    if str(kind) == "date32[day]":
        return ds.field(date_column) == day
    if "string" in str(kind):
        return ds.field(date_column) == paths.day(day)
    raise ConfigurationError(
        f"source.date_column: {date_column} is {kind}", remedy="name a column of dates, or of strings like 2026-11-20"
    )
