"""ingest: writes the days of a source into the snapshot table, and reads each day once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from functools import partial
from pathlib import Path

import pyarrow as pa

from ratchet.contracts import data_versions, paths
from ratchet.contracts.columns import LISTS, ColumnType
from ratchet.contracts.errors import DataRejected, SourceChanged
from ratchet.contracts.fingerprint import digest_of, flatten
from ratchet.contracts.pipeline import PARTITION
from ratchet.contracts.request import SourceDay
from ratchet.contracts.result import Artifact
from ratchet.contracts.snapshot import KeptRows, Snapshot, SnapshotDay
from ratchet.contracts.snapshot_index import HeldDay, SnapshotIndex
from ratchet.contracts.source import SqlSource
from ratchet.contracts.source_columns import as_written
from ratchet.contracts.widths import widths
from ratchet.pages.words import count
from ratchet.runtime.context import Finished, StageContext
from ratchet.runtime.days import DayParts, NewPart
from ratchet.runtime.held_days import ANSWER, file_parts, hold, read_index, table_of
from ratchet.runtime.source_reach import check_reach
from ratchet.store.publishing import Transaction
from tasks.ingest.absence import NO_FILES, NO_ROWS, absent_error
from tasks.ingest.day import build
from tasks.ingest.held import compared, take_filled, take_held
from tasks.ingest.kept_rows import keep
from tasks.ingest.row_order import SORT_MEMORY
from tasks.ingest.schema import arrow_schema
from tasks.ingest.snapshot_table import commit, commit_past
from tasks.ingest.stored_days import file_key
from tasks.ingest.traits import SourceTraits, refuse_mixed_zones
from tasks.ingest.writing import rows_at_once

_BYTES_PER_VALUE = 110  # while a row group is cast and written: 79 to 107 were measured


def run(ctx: StageContext) -> Finished:
    """Write every day of the window into the snapshot table. Raises DataRejected, Unavailable, ConfigurationError."""
    if ctx.request.reads_source:
        check_reach(ctx.spec.source, ctx.request.source_root, ctx.request.source, ctx.store)
    columns, table = ctx.spec.source_columns, table_of(ctx.spec)
    with ctx.phase("held"):
        index = read_index(ctx.store, ctx.spec) if not ctx.request.another_source else SnapshotIndex()
        stored = {entry.key: entry for entry in ctx.store.list(table)}
        answers = _answers(ctx)
        taken = take_held(ctx, index, stored, answers)
    planned = {day.day: day for day in ctx.request.source if day.files and day.day not in taken}
    absent = {day.day: NO_FILES for day in ctx.request.source if day.day not in taken | planned}
    _refuse_absent(ctx, absent)
    with ctx.phase("days"), _final_for_then(ctx):
        read = _days(ctx, columns, table, [*planned.values()], answers)
    emptied = take_filled(ctx, index, stored, planned, read)
    taken, read = taken | emptied, [day for day in read if day.day not in emptied]
    days = sorted((day for day in [*taken.values(), *read] if day.file.rows), key=lambda day: day.day)
    filled = {day.day for day in days}
    absent |= {day.day: NO_ROWS for day in ctx.request.source if day.day not in filled | {*absent}}
    _refuse_absent(ctx, absent)
    refuse_mixed_zones({day.day: day.zones for day in days})
    with ctx.phase("commit"):
        schema = arrow_schema(columns).append(pa.field(PARTITION, pa.date32()))
        is_now = ctx.request.as_of == "now" and not ctx.request.another_source
        if not ctx.request.another_source:  # before the table has them: a day that is read is never lost
            made = _read_now(ctx, table, planned, read, answers)
            hold(ctx.store, ctx.spec, made, compared(index, taken, stored), replace=is_now)
        files = {day.day: day.file for day in days}
        version = (commit if is_now else commit_past)(ctx.store, table, schema, files, on_repair=ctx.log.warning)
    for day in days:
        ctx.transaction.refer(f"{paths.day(day.day)}.parquet", day.file)
    kept = _kept(ctx, columns, days)
    held = tuple(day.day for day in ctx.request.source if day.held is not None or day.day in emptied)
    snapshot = Snapshot(
        table=table,
        version=version,
        days=tuple(days),
        missing=tuple(sorted(absent)),
        held=held,
        as_of=ctx.request.as_of,
        kept=kept,
    )
    _log_taken(ctx, len(taken) - len(held), held)
    if absent:
        ctx.log.event("missing_days", f"days of the window without data: {_list(absent)}", level="warning")
    return Finished(
        content=digest_of([[paths.day(day.day), day.file.sha256] for day in days]),
        summary=snapshot,
        metrics={
            "rows": snapshot.rows,
            "days": len(days),
            "days_missing": len(absent),
            "bytes": sum(day.file.bytes for day in days),
        },
    )


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


def _read_now(
    ctx: StageContext,
    table: str,
    planned: Mapping[date, SourceDay],
    read: Sequence[SnapshotDay],
    answers: Mapping[date, str],
) -> dict[date, HeldDay]:
    """What the index has to say of the days that were read from the source."""
    etags = {entry.key: entry.etag for entry in ctx.store.list(table)} if read else {}
    return {
        day.day: HeldDay(
            day=day,
            files=planned[day.day].files,
            listed=ctx.request.listed,
            version=data_versions.ROWS,
            answer=answers.get(day.day, ""),
            etag=etags.get(day.file.key, ""),
        )
        for day in read
    }


def _log_taken(ctx: StageContext, unchanged: int, held: Sequence[date]) -> None:
    """Name what was not read from the source."""
    if unchanged:
        ctx.log.event("unchanged", f"{count(unchanged, 'day')} of the window are held as the source has them")
    if held:
        why = (
            "as the source was then" if ctx.request.as_of == "then" else "as the source has them no more, or not whole"
        )
        ctx.log.event("held", f"{count(len(held), 'day')} are taken from the snapshot, {why}: {_list(held)}")


def _kept(ctx: StageContext, columns: dict[str, ColumnType], days: list[SnapshotDay]) -> tuple[KeptRows, ...]:
    """The held-out days as models in production read them that need other columns."""
    found = []
    for place, reader in enumerate(ctx.request.readers):
        with ctx.phase("kept"), _final_for_then(ctx):
            memory = _memory(ctx, columns) + _memory(ctx, reader.columns)
            found.append(keep(ctx, reader, columns, days, memory))
        for day in found[-1].days:
            ctx.transaction.refer(f"kept-{place}-{paths.day(day.day)}.parquet", day.file)
        if cause := found[-1].cause:
            said = f"a model in production reads columns that cannot be kept for it: {cause}"
            ctx.log.event("not_kept", said, level="warning")
    return tuple(found)


def _memory(ctx: StageContext, columns: Mapping[str, ColumnType]) -> int:
    """The bytes for a row group of these columns; a column that the pipeline has no more has one value in a row."""
    known = widths(ctx.spec.columns)
    values = {name: known.get(name, 1) for name in columns}
    several = sum(values[name] for name, kind in columns.items() if kind in LISTS)
    return rows_at_once(several) * sum(values.values()) * _BYTES_PER_VALUE


@contextmanager
def _final_for_then(ctx: StageContext) -> Iterator[None]:
    """A run that takes the source as it was `then` cannot be planned again: what has changed is gone."""
    try:
        yield
    except SourceChanged as error:
        if ctx.request.as_of == "then":
            raise DataRejected(error.cause, remedy="run with as_of: now, or restore the source") from error
        raise


def _refuse_absent(ctx: StageContext, absent: dict[date, str]) -> None:
    data_date = ctx.request.data_date
    if data_date in absent:
        zone = ctx.spec.schedule.timezone if ctx.spec.schedule else "UTC"
        raise absent_error(ctx.spec.source, ctx.request.source_root, data_date, absent[data_date], timezone=zone)
    if absent and ctx.spec.source.missing_days == "fail":
        share = f"{len(absent)} of {len(ctx.request.source)} days"
        raise DataRejected(
            f"source.missing_days is fail, and {share} have no data: {_list(absent)}",
            remedy="deliver these days, or set source.missing_days: skip",
        )


def _list(days: Iterable[date], most: int = 10) -> str:
    ordered = sorted(days)
    more = f" and {len(ordered) - most} more" if len(ordered) > most else ""
    return ", ".join(map(paths.day, ordered[:most])) + more


def _days(
    ctx: StageContext,
    columns: dict[str, ColumnType],
    table: str,
    wanted: list[SourceDay],
    answers: Mapping[date, str],
) -> list[SnapshotDay]:
    """Every day's file, oldest first; without the days for which a query gives no rows."""
    seen = SourceTraits()
    parts = DayParts(
        ctx=ctx,
        name=paths.day_part("ingest"),
        verb="ingested",
        common={
            **flatten(columns, "config.columns"),
            "config.columns": " ".join(columns),
            **flatten(as_written(ctx.spec.source), "config.source"),
        },
        identity=lambda day: {**file_parts(day), **({ANSWER: answers[day.day]} if day.day in answers else {})},
        make=partial(_make, ctx, columns, table, seen),
        read=lambda found: SnapshotDay.model_validate(found.result.summary),
        indexed=False,  # the index of the snapshot has them
    )
    sort = SORT_MEMORY if ctx.spec.source.kind != "files" else 0
    days = parts.build(wanted, memory=_memory(ctx, columns) + sort)
    if seen.extra:
        ctx.log.event("not_taken", f"columns of the source that are not declared: {', '.join(sorted(seen.extra))}")
    for form in sorted(seen.forms):
        ctx.log.event("csv", f"CSV read with {form}; source.csv sets another form")
    return list(days.values())


def _make(
    ctx: StageContext,
    columns: dict[str, ColumnType],
    table: str,
    seen: SourceTraits,
    planned: SourceDay,
    transaction: Transaction,
    scratch: Path,
) -> NewPart | None:
    """Write a day's Parquet file into the table's folder. Its name is its digest, so that no file is overwritten.

    None for a day for which a query gives no rows: a database reports no change, so a later run has to ask again.
    """
    built = build(ctx.spec, ctx.request.source_root, planned, columns=columns, scratch=scratch)
    if ctx.spec.source.kind == "sql" and not built.file.rows:
        return None
    file = Artifact(
        key=file_key(table, planned.day, built.file.sha256),
        sha256=built.file.sha256,
        bytes=built.file.bytes,
        rows=built.file.rows,
    )
    seen.extra |= built.traits.extra
    seen.forms |= built.traits.forms
    ctx.store.upload(built.file.path, file.key)
    transaction.refer("rows.parquet", file)
    day = SnapshotDay(day=planned.day, file=file, source=built.source, zones=built.traits.zones)
    return NewPart(content=file.sha256, rows=built.file.rows, summary=day)
