"""The further sources of a window: each is read by day into a snapshot table of its own, before the main one."""

from dataclasses import replace
from datetime import date

from ratchet.contracts.errors import DataRejected
from ratchet.contracts.further_source import days_looked_at, further, join_identity, time_column
from ratchet.contracts.snapshot import SnapshotDay
from ratchet.pages.words import count
from ratchet.runtime.context import StageContext
from ratchet.runtime.days import REBUILD
from ratchet.runtime.further_days import of_join
from ratchet.runtime.held_days import read_index
from tasks.ingest.absence import NO_FILES
from tasks.ingest.joining import Joins
from tasks.ingest.window import read_window


def read_joins(ctx: StageContext) -> Joins:
    """The days of the further sources that the plan names. Raises what `read_window` raises, with the join's name."""
    days: dict[str, dict[date, SnapshotDay]] = {name: {} for name in ctx.spec.joins}
    for name, planned in ctx.request.joins.items():
        update = {
            "spec": further(ctx.spec, name),
            "source_root": planned.root,
            "source": planned.days,
            "joins": {},
            "readers": (),
            "parts": {**ctx.request.parts, **_again(ctx, name)},
        }
        own = replace(ctx, request=ctx.request.model_copy(update=update))
        with of_join(name):
            none = Joins(spec=own.spec, days={})
            window = read_window(own, none, refuse_absent=_refuse_missing, moment=time_column(ctx.spec, name))
        days[name] = {day.day: day for day in window.days}
        missing = sorted(day for day, why in window.absent.items() if why == NO_FILES)
        _log(ctx, name, read=len(window.days) - window.taken, taken=window.taken, missing=missing)
    if ctx.request.as_of == "then" and ctx.spec.joins:
        _log_then(ctx)
    return Joins(spec=ctx.spec, days=days)


def _again(ctx: StageContext, name: str) -> dict[str, str]:
    """The days of a query that are read again, as the data date is that was refused: they may have been corrected."""
    run_id = ctx.request.parts.get(f"{REBUILD}{ctx.request.data_date}")
    if run_id is None or ctx.spec.joins[name].source.kind != "sql":
        return {}
    return {f"{REBUILD}{day}": run_id for day in days_looked_at(ctx.spec, name, ctx.request.data_date)}


def _log(ctx: StageContext, name: str, *, read: int, taken: int, missing: list[date]) -> None:
    said = f"joins.{name}: {count(read, 'day')} read, {count(taken, 'day')} as the snapshot holds them"
    lacks = f"; {count(len(missing), 'day')} without data, the last one {missing[-1]}" if missing else ""
    ctx.log.event("further", f"{said}{lacks}", level="warning" if missing else "info")


def _log_then(ctx: StageContext) -> None:
    """Warn of days that stay as they were joined then, and would be joined otherwise now."""
    index, rows = read_index(ctx.store, ctx.spec), {}
    for name in ctx.spec.joins:
        held = read_index(ctx.store, further(ctx.spec, name)).days
        rows[name] = {day: one.day.file.sha256 for day, one in held.items() if one.day.file.rows}
    otherwise = []
    for day in (planned.held for planned in ctx.request.source if planned.held is not None):
        known = index.entry(day)
        if known and known.joined != {name: join_identity(ctx.spec, name, of, day.day) for name, of in rows.items()}:
            otherwise.append(day.day)
    if otherwise:
        said = f"joined as then, and otherwise now: {count(len(otherwise), 'day')}, the last one {otherwise[-1]}"
        ctx.log.event("held", said, level="warning")


def _refuse_missing(ctx: StageContext, absent: dict[date, str]) -> None:
    """Refuse days without files, where the source may not lack any. A day without rows is none of them."""
    missing = sorted(day for day, why in absent.items() if why == NO_FILES)
    if missing and ctx.spec.source.missing_days == "fail":
        shown = ", ".join(map(str, missing[-5:]))
        raise DataRejected(
            f"source.missing_days is fail, and {len(missing)} of the {len(ctx.request.source)} days that are looked at "
            f"have no data; the last ones: {shown}",
            remedy="deliver them, set source.missing_days: skip, or look at fewer days by `within`",
        )
