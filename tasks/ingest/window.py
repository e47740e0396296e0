"""The days of one source of a window, main or further, in its snapshot table: each is read once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path

import pyarrow as pa

from ratchet.contracts import data_versions, paths
from ratchet.contracts.columns import LISTS, ColumnType
from ratchet.contracts.errors import DataRejected, SourceChanged
from ratchet.contracts.fingerprint import flatten
from ratchet.contracts.further_source import main_columns
from ratchet.contracts.pipeline import PARTITION
from ratchet.contracts.removal import Removal
from ratchet.contracts.request import SourceDay
from ratchet.contracts.result import Artifact
from ratchet.contracts.snapshot import SnapshotDay
from ratchet.contracts.snapshot_index import HeldDay, SnapshotIndex
from ratchet.contracts.source import SqlSource
from ratchet.contracts.source_columns import as_written
from ratchet.contracts.stored import take
from ratchet.contracts.widths import widths
from ratchet.runtime.context import StageContext
from ratchet.runtime.days import DayParts, NewPart
from ratchet.runtime.held_days import ANSWER, JOINED, OPEN, file_parts, hold, read_index, table_of
from ratchet.runtime.source_reach import check_reach
from ratchet.store.publishing import Transaction
from tasks.ingest.absence import NO_FILES, NO_ROWS
from tasks.ingest.day import build
from tasks.ingest.held import compared, take_filled, take_held
from tasks.ingest.joining import DayJoin, Joins
from tasks.ingest.purged_rows import purges_of
from tasks.ingest.row_order import SORT_MEMORY
from tasks.ingest.schema import arrow_schema
from tasks.ingest.snapshot_table import commit, commit_past
from tasks.ingest.stored_days import file_key
from tasks.ingest.traits import SourceTraits, refuse_mixed_zones
from tasks.ingest.writing import rows_at_once

_BYTES_PER_VALUE = 110  # while a row group is cast and written: 79 to 107 were measured
RefuseAbsent = Callable[[StageContext, dict[date, str]], None]
"""Raises DataRejected where days are absent that may not be; the text is NO_FILES or NO_ROWS."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """The days of a source that have rows, oldest first, in a version of its table; of a share those that were made.

    taken: how many of them were not read now; held: those of them that were not looked for in the source.
    """

    table: str
    version: int
    days: list[SnapshotDay]
    absent: dict[date, str]
    taken: int
    held: tuple[date, ...]


def read_window(ctx: StageContext, joins: Joins, *, refuse_absent: RefuseAbsent, moment: str | None = None) -> Window:
    """Write the days of the request's source into its table. moment: of a further source, its time column."""
    if ctx.request.reads_source:
        check_reach(ctx.spec.source, ctx.request.source_root, ctx.request.source, ctx.store)
    columns, table = ctx.spec.source_columns, table_of(ctx.spec)
    with ctx.phase("held"):
        index = read_index(ctx.store, ctx.spec) if not ctx.request.another_source else SnapshotIndex()
        stored = {entry.key: entry for entry in ctx.store.list(table)}
        answers = _answers(ctx)
        taken = take_held(ctx, index, stored, answers, joins.identity)
    planned = {day.day: day for day in ctx.request.source if day.files and day.day not in taken}
    absent = {day.day: NO_FILES for day in ctx.request.source if day.day not in taken | planned}
    refuse_absent(ctx, absent)
    with ctx.phase("days"), final_for_then(ctx):
        read = _days(ctx, columns, [*planned.values()], answers, joins, moment, unread := set[str]())
    if ctx.request.share:
        return Window(table=table, version=0, days=read, absent={}, taken=0, held=())
    emptied = take_filled(ctx, index, stored, planned, read)
    taken, read = taken | emptied, [day for day in read if day.day not in emptied]
    days = sorted((day for day in [*taken.values(), *read] if day.file.rows), key=lambda day: day.day)
    filled = {day.day for day in days}
    absent |= {day.day: NO_ROWS for day in ctx.request.source if day.day not in filled | {*absent}}
    refuse_absent(ctx, absent)
    refuse_mixed_zones({day.day: day.zones for day in days})
    with ctx.phase("commit"):
        schema = arrow_schema(columns).append(pa.field(PARTITION, pa.date32()))
        is_now = ctx.request.as_of == "now" and not ctx.request.another_source
        if not ctx.request.another_source:  # before the table has them: a day that is read is never lost
            final = read if moment is None else [day for day in read if not _is_open(ctx, day.day)]
            made = _read_now(ctx, table, planned, final, answers, joins, unread)
            hold(ctx.store, ctx.spec, made, compared(ctx, index, taken, stored), replace=is_now)
        files = {day.day: day.file for day in days}
        version = (commit if is_now else commit_past)(ctx.store, table, schema, files, on_repair=ctx.log.warning)
    held = tuple(day.day for day in ctx.request.source if day.held is not None or day.day in emptied)
    return Window(table=table, version=version, days=days, absent=absent, taken=len(taken), held=held)


def _answers(ctx: StageContext) -> dict[date, str]:
    """What the source says of changes, before a day is read: of a change meanwhile the next run will know."""
    source, request = ctx.spec.source, ctx.request
    if (
        not isinstance(source, SqlSource)
        or source.changed is None
        or not request.reads_source
        or request.as_of != "now"
    ):
        return {}
    from tasks.ingest.sql_source import changes

    days = [day.day for day in request.source if day.files and day.held is None]
    return changes(source, {day: ctx.spec.day_bounds(day) for day in days})


def _is_open(ctx: StageContext, day: date) -> bool:
    """Whether a query may give more rows of a day after this run, as it had not ended when the run was planned."""
    listed = ctx.request.listed
    return ctx.spec.source.kind == "sql" and listed is not None and listed < ctx.spec.day_bounds(day)[1]


def _read_now(
    ctx: StageContext,
    table: str,
    planned: Mapping[date, SourceDay],
    read: Sequence[SnapshotDay],
    answers: Mapping[date, str],
    joins: Joins,
    unread: set[str],
) -> dict[date, HeldDay]:
    """What the index has to say of the days that were read from the source. unread: files that nobody has compared."""
    stored = ctx.store.list(table) if read else ()
    etags = {entry.key: entry.etag for entry in stored if entry.key not in unread}
    return {
        day.day: HeldDay(
            day=day,
            files=planned[day.day].files,
            listed=ctx.request.listed,
            version=data_versions.ROWS,
            answer=answers.get(day.day, ""),
            joined=joins.identity(day.day),
            etag=etags.get(day.file.key, ""),
        )
        for day in read
    }


def memory_of(ctx: StageContext, columns: Mapping[str, ColumnType]) -> int:
    """The bytes for a row group of these columns; a column that the pipeline has no more has one value in a row."""
    known = widths(ctx.spec.columns)
    values = {name: known.get(name, 1) for name in columns}
    several = sum(values[name] for name, kind in columns.items() if kind in LISTS)
    return rows_at_once(several) * sum(values.values()) * _BYTES_PER_VALUE


@contextmanager
def final_for_then(ctx: StageContext) -> Iterator[None]:
    """A run that takes the source as it was `then` cannot be planned again: what has changed is gone."""
    try:
        yield
    except SourceChanged as error:
        if ctx.request.as_of == "then":
            raise DataRejected(error.cause, remedy="run with as_of: now, or restore the source") from error
        raise


def _days(
    ctx: StageContext,
    columns: dict[str, ColumnType],
    wanted: list[SourceDay],
    answers: Mapping[date, str],
    joins: Joins,
    moment: str | None,
    unread: set[str],
) -> list[SnapshotDay]:
    """Every day's file, oldest first; without the days for which a query gives no rows. unread: see `DayParts`."""
    seen, purges = SourceTraits(), purges_of(ctx.store, ctx.spec.name)
    if moment is not None:  # a purge is of a column of the main source, which a further one may not have
        purges = tuple(one.model_copy(update={"source": ""}) for one in purges if one.column in columns)
    parts = DayParts(
        ctx=ctx,
        name=paths.day_part("ingest"),
        verb="ingested",
        common={
            **flatten(columns, "config.columns"),
            "config.columns": " ".join(columns),
            **flatten(as_written(ctx.spec.source), "config.source"),
        },
        identity=lambda day: {
            **file_parts(day),
            **({ANSWER: answers[day.day]} if day.day in answers else {}),
            **{f"{JOINED}{name}": made_from for name, made_from in joins.identity(day.day).items()},
            **({OPEN: str(ctx.request.listed)} if moment is not None and _is_open(ctx, day.day) else {}),
        },
        make=partial(_make, ctx, joins, moment, seen, purges),
        read=lambda found: take(SnapshotDay, found.result.summary),
        unread=unread,
        indexed=False,  # the index of the snapshot has them
    )
    sort = SORT_MEMORY if ctx.spec.source.kind != "files" else 0
    memory = memory_of(ctx, columns) + sort + joins.memory(day.day for day in wanted)
    days = parts.build(wanted, memory=memory)
    joins.log(ctx)
    if seen.extra:
        ctx.log.event("not_taken", f"columns of the source that are not declared: {', '.join(sorted(seen.extra))}")
    if seen.unsearched:
        said = f"purged rows cannot be looked for: neither file nor source has {', '.join(sorted(seen.unsearched))}"
        said += "; if another column has the keys now, purge them by that column"
        ctx.log.event("not_purged", said, level="warning")
    for form in sorted(seen.forms):
        ctx.log.event("csv", f"CSV read with {form}; source.csv sets another form")
    return list(days.values())


def _make(
    ctx: StageContext,
    joins: Joins,
    moment: str | None,
    seen: SourceTraits,
    purges: Sequence[Removal],
    planned: SourceDay,
    transaction: Transaction,
    scratch: Path,
) -> NewPart | None:
    """Write a day's Parquet file into the table's folder. Its name is its digest, so that no file is overwritten.

    None for a day for which a query gives no rows: a database reports no change, so a later run has to ask again.
    """
    columns = main_columns(ctx.spec)
    join = DayJoin(ctx, joins, planned.day, scratch) if ctx.spec.joins else None
    root = ctx.request.source_root
    decides = ctx.spec.with_role("time")[0] if join else moment
    built = build(ctx.spec, root, planned, columns=columns, scratch=scratch, purges=purges, join=join, moment=decides)
    if decides in built.traits.dates:
        raise DataRejected(
            f"{planned.day}: {ctx.spec.source.names.get(decides, decides)} is a date, which does not say at what time "
            f"of the day {'the row was, so what was known then' if join else 'a row became known'}",
            remedy="deliver a timestamp in each row; where only the day is known, the first moment of "
            + ("that day" if join else "the next one"),
        )
    if ctx.spec.source.kind == "sql" and not built.file.rows:
        return None
    file = Artifact(
        key=file_key(table_of(ctx.spec), planned.day, built.file.sha256),
        sha256=built.file.sha256,
        bytes=built.file.bytes,
        rows=built.file.rows,
    )
    seen.extra |= built.traits.extra
    seen.forms |= built.traits.forms
    seen.unsearched |= built.traits.unsearched
    ctx.store.upload(built.file.path, file.key)
    transaction.refer("rows.parquet", file)
    day = SnapshotDay(day=planned.day, file=file, source=built.source, zones=built.traits.zones)
    return NewPart(content=file.sha256, rows=built.file.rows, summary=day)
