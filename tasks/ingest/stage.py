"""ingest: writes the days of its sources into snapshot tables, and reads each day once."""

from collections.abc import Iterable, Sequence
from datetime import date

from ratchet.contracts import paths
from ratchet.contracts.columns import ColumnType
from ratchet.contracts.errors import DataRejected
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.snapshot import KeptRows, Snapshot, SnapshotDay
from ratchet.pages.words import count
from ratchet.runtime.context import Finished, StageContext
from ratchet.runtime.shares import finished_share
from ratchet.store.removals import expired, removals, successors
from tasks.ingest.absence import absent_error
from tasks.ingest.further import read_joins
from tasks.ingest.kept_rows import keep
from tasks.ingest.window import final_for_then, memory_of, read_window


def run(ctx: StageContext) -> Finished:
    """Write every day of the window into the snapshot table. Raises DataRejected, Unavailable, ConfigurationError."""
    with ctx.phase("joins"):
        joins = read_joins(ctx)
    window = read_window(ctx, joins, refuse_absent=_refuse_absent)
    if ctx.request.share:
        return finished_share(window.days)
    days, absent, held = window.days, window.absent, window.held
    for day in days:
        ctx.transaction.refer(f"{paths.day(day.day)}.parquet", day.file)
    kept = _kept(ctx, ctx.spec.source_columns, days)
    snapshot = Snapshot(
        table=window.table,
        version=window.version,
        days=tuple(days),
        missing=tuple(sorted(absent)),
        held=held,
        as_of=ctx.request.as_of,
        kept=kept,
        purged=_purged(ctx, days),
    )
    _log_taken(ctx, window.taken - len(held), held)
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


def _purged(ctx: StageContext, days: Iterable[SnapshotDay]) -> tuple[date, ...]:
    """The days that lack rows which they had when they were read first."""
    after = {day.file.sha256 for day, _ in successors(removals(ctx.store, ctx.spec.name)).values()}
    return tuple(day.day for day in days if day.file.sha256 in after)


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
        with ctx.phase("kept"), final_for_then(ctx):
            memory = memory_of(ctx, columns) + memory_of(ctx, reader.columns)
            found.append(keep(ctx, reader, columns, days, memory))
        for day in found[-1].days:
            ctx.transaction.refer(f"kept-{place}-{paths.day(day.day)}.parquet", day.file)
        if cause := found[-1].cause:
            said = f"a model in production reads columns that cannot be kept for it: {cause}"
            ctx.log.event("not_kept", said, level="warning")
    return tuple(found)


def _refuse_absent(ctx: StageContext, absent: dict[date, str]) -> None:
    data_date = ctx.request.data_date
    if data_date in absent:
        zone = ctx.spec.schedule.timezone if ctx.spec.schedule else "UTC"
        raise absent_error(ctx.spec.source, ctx.request.source_root, data_date, absent[data_date], timezone=zone)
    if absent and ctx.spec.source.missing_days == "fail":
        share = f"{len(absent)} of {len(ctx.request.source)} days"
        gone = expired(removals(ctx.store, ctx.spec.name))
        lines = "".join(f"; {day} {gone[day].line}" for day in sorted(absent) if day in gone)
        raise DataRejected(
            f"source.missing_days is fail, and {share} have no data: {_list(absent)}{lines}",
            remedy="deliver these days, or set source.missing_days: skip",
        )


def _list(days: Iterable[date], most: int = 10) -> str:
    ordered = sorted(days)
    more = f" and {len(ordered) - most} more" if len(ordered) > most else ""
    return ", ".join(map(paths.day, ordered[:most])) + more
