"""ingest: the days of a source into the snapshot table, each read once."""

import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import date

import pyarrow as pa

from ratchet.contracts import paths
from ratchet.contracts.columns import ColumnType
from ratchet.contracts.errors import CorruptArtifact, DataRejected, PublishConflict
from ratchet.contracts.fingerprint import digest, digest_of, fingerprint, flatten
from ratchet.contracts.pipeline import PARTITION
from ratchet.contracts.request import SourceDay
from ratchet.contracts.result import Artifact
from ratchet.contracts.summaries import Snapshot, SnapshotDay
from ratchet.runtime.code import code_parts
from ratchet.runtime.context import Finished, StageContext
from ratchet.store.file import FileStore
from ratchet.store.publishing import Transaction, discard_damaged, published
from tasks.ingest.day import build
from tasks.ingest.schema import arrow_schema, taken
from tasks.ingest.table import commit, file_key

_PART = paths.day_part("ingest")
_ROWS = "rows.parquet"
_EMPTY = "no rows"
_NONE = "no files"


def run(ctx: StageContext) -> Finished:
    """Bring every day of the window into the snapshot table. Raises DataRejected, Unavailable, ConfigurationError."""
    columns = taken(ctx.spec)
    table = paths.table(ctx.spec.name, digest_of(list(columns.items())))
    absent = {day.day: _NONE for day in ctx.request.source if not day.files}
    _refuse_absent(ctx, absent)
    with ctx.phase("days"):
        days = _days(ctx, columns, table, [day for day in ctx.request.source if day.files])
    absent |= {day.day: _EMPTY for day in days if not day.file.rows}
    _refuse_absent(ctx, absent)
    days = [day for day in days if day.file.rows]
    with ctx.phase("commit"):
        schema = arrow_schema(columns).append(pa.field(PARTITION, pa.date32()))
        version = commit(ctx.store, table, schema, {day.day: day.file for day in days})
    for day in days:
        ctx.transaction.refer(f"{paths.day(day.day)}.parquet", day.file)
    snapshot = Snapshot(table=table, version=version, days=tuple(days), missing=tuple(sorted(absent)))
    if absent:
        ctx.log.event("missing_days", f"days of the window without data: {_listed(absent)}", level="warning")
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


def _refuse_absent(ctx: StageContext, absent: dict[date, str]) -> None:
    data_date = ctx.request.data_date
    if data_date in absent:
        raise DataRejected(
            f"{data_date}: the source has {absent[data_date]} for the data date",
            remedy=f"deliver the day to {ctx.spec.source.uri}, or run for another date",
        )
    if absent and ctx.spec.source.missing_days == "fail":
        share = f"{len(absent)} of {len(ctx.request.source)} days"
        raise DataRejected(
            f"source.missing_days is fail, and {share} have no data: {_listed(absent)}",
            remedy="deliver them, or set source.missing_days: skip",
        )


def _listed(days: Iterable[date], most: int = 10) -> str:
    ordered = sorted(days)
    more = f" and {len(ordered) - most} more" if len(ordered) > most else ""
    return ", ".join(map(paths.day, ordered[:most])) + more


def _days(ctx: StageContext, columns: dict[str, ColumnType], table: str, wanted: list[SourceDay]) -> list[SnapshotDay]:
    """Every day's file, from the cache or made now, oldest first. Threads, since Parquet is read outside of the GIL."""
    common = {
        **code_parts("tasks.ingest.day"),
        **flatten(columns, "config.columns"),
        "config.columns": " ".join(columns),
        "library.pyarrow": pa.__version__,
    }
    workers = max(2, int(ctx.spec.resources["ingest"].cpus))
    # On this disk a window's bytes are read in a second or two. Over a network sizes are looked at alone, until this
    # result was found to be damaged.
    quick = not isinstance(ctx.store, FileStore) and not any(ctx.store.list(f"{ctx.request.prefix}/damaged"))
    found: dict[date, SnapshotDay] = {}
    left: set[str] = set()
    pool = ThreadPoolExecutor(workers)
    try:
        futures = [pool.submit(_day, ctx, columns, table, day, common, left, quick=quick) for day in wanted]
        for done, future in enumerate(as_completed(futures), start=1):
            day, reused = future.result()
            found[day.day] = day
            verb = "reused" if reused else f"ingested {day.file.rows} rows of"
            ctx.log.progress(f"{verb} {day.day}", done=done, total=len(wanted))
    finally:
        pool.shutdown(cancel_futures=True)
    if left:
        ctx.log.event("not_taken", f"columns of the source that are not declared: {', '.join(sorted(left))}")
    return [found[day] for day in sorted(found)]


def _day(
    ctx: StageContext,
    columns: dict[str, ColumnType],
    table: str,
    planned: SourceDay,
    common: dict[str, str],
    left: set[str],
    *,
    quick: bool,
) -> tuple[SnapshotDay, bool]:
    """A day's file in the store, and whether it stood there before."""
    parts = {
        **common,
        **{f"source.{file.key}": f"{file.bytes} {file.identity}" for file in planned.files},
    }
    prefix = paths.published(ctx.spec.name, _PART, fingerprint(parts))
    rebuild = "rebuild" in ctx.request.parts
    standing = _standing(ctx, prefix, quick=quick)
    if standing is not None and not rebuild:
        return standing, True
    scratch = ctx.disk / f"ingest-{planned.day}"
    scratch.mkdir()
    try:
        built = build(ctx.spec.source, ctx.request.source_root, planned, columns=columns, scratch=scratch)
        file = Artifact(
            key=file_key(table, planned.day, built.file.sha256),
            sha256=built.file.sha256,
            bytes=built.file.bytes,
            rows=built.file.rows,
        )
        left |= built.left
        ctx.store.upload(built.file.path, file.key)
    finally:
        shutil.rmtree(scratch)
    day = SnapshotDay(day=planned.day, file=file, source=built.source)
    _publish(ctx, prefix, parts, day, rebuild=rebuild)
    return day, False


def _publish(ctx: StageContext, prefix: str, parts: dict[str, str], day: SnapshotDay, *, rebuild: bool) -> None:
    def commit_day() -> None:
        transaction = Transaction(ctx.store, prefix, ctx.request.attempt)
        transaction.refer(_ROWS, day.file)
        transaction.commit(
            stage=_PART, fingerprint=fingerprint(parts), parts=parts, content=day.file.sha256, summary=day
        )

    try:
        commit_day()
    except PublishConflict:
        if not rebuild:
            raise
        # A database has other rows for the same query than when it was first read, and a person asked for them: later
        # nights take these. Runs that were made of the old ones name them in their own snapshots.
        key = paths.manifest(prefix)
        old = ctx.store.read(key)
        ctx.store.create(paths.superseded(prefix, digest(old)), old)
        ctx.store.delete(key)
        commit_day()


def _standing(ctx: StageContext, prefix: str, *, quick: bool) -> SnapshotDay | None:
    """What was published for a day. What is damaged is moved aside and made anew; readers check every digest."""
    if discard_damaged(ctx.store, prefix, quick=quick):
        ctx.log.event("damaged", f"{prefix} was damaged, and is made anew", level="warning")
        return None
    try:
        found = published(ctx.store, prefix)
    except CorruptArtifact:
        return None
    return None if found is None else SnapshotDay.model_validate(found.result.summary)
