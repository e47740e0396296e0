"""The held-out days with the columns that a model in production reads and the pipeline file has no more.

They are read from the source by this run's ingest, as the days themselves, and are part of its snapshot: no later stage
reads the source. Row i belongs to row i of the day's file.

A change here violates the promise of the project when a row of a day and a row that is kept for it are of different
rows of the source.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.contracts import data_versions, paths
from ratchet.contracts.columns import ColumnType
from ratchet.contracts.errors import ConfigurationError, DataRejected, OtherRelease, SourceChanged, Unavailable
from ratchet.contracts.fingerprint import flatten
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.readers import Reader
from ratchet.contracts.removal import Removal
from ratchet.contracts.request import SourceDay
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.snapshot import KeptRows, SnapshotDay
from ratchet.contracts.source import SqlSource
from ratchet.contracts.source_columns import as_written
from ratchet.contracts.stored import take
from ratchet.runtime.context import StageContext
from ratchet.runtime.days import DayParts, NewPart
from ratchet.runtime.delta_listing import SORTED
from ratchet.store.publishing import Transaction
from tasks.ingest.day import build
from tasks.ingest.purged_rows import as_read, purges_of, rest
from tasks.ingest.row_order import SORT_MEMORY
from tasks.ingest.schema import arrow_schema
from tasks.ingest.source_columns import as_declared, in_source
from tasks.ingest.traits import SourceTraits
from tasks.ingest.writing import DayFile, write

_OTHER = "other."
"""Before the name of a column that a model reads: the pipeline may have one of that name and of another type."""
_OUTPUT = "rows.parquet"


class _Lost(Exception):
    """Rows that cannot be kept. cause: why."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


def keep(
    ctx: StageContext, reader: Reader, columns: dict[str, ColumnType], days: list[SnapshotDay], memory: int
) -> KeptRows:
    """The held-out days as a model reads them. columns: of the pipeline. memory: bytes for a day of as many columns.

    What the source has no more is the `cause`, and no error: it is for evaluate to say. Raises what `day.build` raises
    for a source that does not answer or has changed.
    """
    held = set(ctx.spec.holdout_window(ctx.request.data_date))
    by_day = {day.day: day for day in days if day.day in held}
    planned = [day for day in ctx.request.source if day.day in by_day]
    causes: list[str] = []
    purges = purges_of(ctx.store, ctx.spec.name)

    def make(wanted: SourceDay, transaction: Transaction, scratch: Path) -> NewPart | None:
        try:
            file = _day(ctx, reader, columns, wanted, by_day[wanted.day], scratch, purges)
        except _Lost as lost:
            causes.append(lost.cause)
            return None
        except OtherRelease:
            raise
        except (SourceChanged, ConfigurationError, Unavailable) as error:
            if wanted.held is None:
                raise
            causes.append(error.cause)  # the run itself does not need the source of this day
            return None
        artifact = transaction.add(_OUTPUT, file.path, rows=file.rows)
        day = by_day[wanted.day]
        kept = SnapshotDay(day=wanted.day, file=artifact, source=day.source, zones=day.zones)
        return NewPart(content=file.sha256, rows=file.rows, summary=kept)

    parts = DayParts(
        ctx=ctx,
        name=paths.day_part("ingest"),
        verb="kept for the model in production",
        common={
            "reader": reader.model_dump_json(),
            "config.columns": " ".join(f"{name}:{kind}" for name, kind in columns.items()),
            **flatten(as_written(ctx.spec.source), "config.source"),
        },
        identity=lambda wanted: {
            "day": by_day[wanted.day].file.sha256,
            "version.rows": str(data_versions.ROWS),
        },
        make=make,
        read=_read,
        indexed=False,
    )
    kept = parts.build(planned, memory=memory + (SORT_MEMORY if ctx.spec.source.kind != "files" else 0))
    return KeptRows(reader=reader, days=tuple(kept.values()), cause="; ".join(sorted(set(causes)))[:1000])


def _read(found: PublishedResult) -> SnapshotDay:
    return take(SnapshotDay, found.result.summary)


def _day(
    ctx: StageContext,
    reader: Reader,
    columns: dict[str, ColumnType],
    wanted: SourceDay,
    day: SnapshotDay,
    scratch: Path,
    purges: Sequence[Removal],
) -> DayFile:
    """The file of a day; without columns that are lost and that the model may not need. Raises _Lost."""
    needed = {name: kind for name, kind in reader.columns.items() if name in reader.needed}
    try:
        return _rows(ctx, reader.columns, columns, wanted, day, _made(scratch / "all"), purges)
    except DataRejected as error:
        if needed == reader.columns:
            raise _Lost(error.cause) from error
    try:
        return _rows(ctx, needed, columns, wanted, day, _made(scratch / "needed"), purges)
    except DataRejected as error:
        raise _Lost(error.cause) from error


def _rows(
    ctx: StageContext,
    read: Mapping[str, ColumnType],
    columns: dict[str, ColumnType],
    wanted: SourceDay,
    day: SnapshotDay,
    scratch: Path,
    purges: Sequence[Removal],
) -> DayFile:
    """A day with the columns to read, row for row the day's own file. Raises DataRejected for a column that is lost."""
    source = ctx.spec.source
    if ctx.spec.joins:
        raise _Lost("rows of a pipeline with joins are not read again with other columns")
    if not wanted.files:
        raise _Lost(f"{wanted.day}: the source has it no more")
    if isinstance(source, SqlSource):
        return _queried(ctx.spec, source, wanted.day, dict(read), columns, day, scratch, purges)
    if wanted.files[0].identity.startswith(SORTED):
        raise _Lost(f"{wanted.day}: the rows of a table with deletion vectors or mapped columns have no order")
    root = ctx.request.source_root
    built = build(ctx.spec, root, wanted, columns=dict(read), scratch=scratch, purges=purges)
    # Files are read in one order. Those of a Delta table never change; `build` has compared their names with the plan.
    if built.file.rows != day.file.rows or (source.kind == "files" and built.source != day.source):
        raise _Lost(f"{wanted.day}: the source has other rows now than when the day was read; start a new run")
    return built.file


def _queried(
    spec: PipelineSpec,
    source: SqlSource,
    day: date,
    read: dict[str, ColumnType],
    columns: dict[str, ColumnType],
    known: SnapshotDay,
    scratch: Path,
    purges: Sequence[Removal],
) -> DayFile:
    """The rows of a query. A database returns them in any order, so both kinds of columns are read and sorted together.

    The columns of the pipeline come first: the rows are in the order of the day's own file, and have to be its bytes.
    """
    from tasks.ingest.row_order import in_order
    from tasks.ingest.sql_source import read_query

    own, other, (purges, _) = arrow_schema(columns), arrow_schema(read), as_read(source, columns, purges)
    both = pa.schema([*own, *(field.with_name(f"{_OTHER}{field.name}") for field in other)])
    traits = SourceTraits()
    also = {f"{_OTHER}{name}": kind for name, kind in in_source(source, read).items()}
    batches = read_query(source, day, spec.day_bounds(day), in_source(source, columns), traits, also=also)
    joined = write(
        in_order(_as_declared(source, batches, columns, read, day), both, scratch / "sort"),
        both,
        scratch / "both.parquet",
    )
    with pq.ParquetFile(rest(joined.path, both, purges, scratch / "rest.parquet").path) as file:
        again = write(
            (batch.select(own.names).cast(own) for batch in file.iter_batches()), own, scratch / "own.parquet"
        )
        if again.sha256 != known.file.sha256:
            raise _Lost(f"{day}: the query gives other rows now than when the day was read; start a new run")
        named = [f"{_OTHER}{name}" for name in other.names]
        return write(
            (batch.select(named).rename_columns(other.names).cast(other) for batch in file.iter_batches()),
            other,
            scratch / "other.parquet",
        )


def _as_declared(
    source: SqlSource, batches: Iterable[Any], columns: dict[str, ColumnType], read: dict[str, ColumnType], day: date
) -> Iterator[Any]:
    """Batches of both kinds of columns under their declared names."""
    for batch in batches:
        own, other = batch.columns[: len(columns)], batch.columns[len(columns) :]
        arrays = []
        for part, kinds in ((own, columns), (other, read)):
            given = pa.RecordBatch.from_arrays(part, names=list(in_source(source, kinds)))
            (made,) = as_declared(source, [given], kinds, day)
            arrays += made.columns
        yield pa.RecordBatch.from_arrays(arrays, names=[*columns, *(f"{_OTHER}{name}" for name in read)])


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
