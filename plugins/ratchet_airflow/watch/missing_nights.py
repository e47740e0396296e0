"""Nights that never started: each is reported once, with why and what to do, and those in a row together.

A pipeline's file says when a night is due, and the store and Airflow which ones there are. That needs no run and no
event of Airflow: so a broken file, a paused DAG, a scheduler that was away at the tick, and a run that holds the next
ones are all found.

A change here violates the promise of the project when a night that is due by `alerts.start_by` and has not started is
reported by nobody, or when one is reported twice.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from pathlib import Path

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.loading import FILE
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.outbox.incidents import names
from ratchet.runs.history import days_of
from ratchet.store.base import Store
from ratchet_airflow.alerts.deduplication import AlertHistory, event_key
from ratchet_airflow.alerts.delivery import send_once
from ratchet_airflow.alerts.message import make_alert
from ratchet_airflow.alerts.situation import Situation
from ratchet_airflow.timetable import DayBeforeTimetable
from ratchet_airflow.watch.airflow_runs import ENDED, AirflowDag, Run
from ratchet_airflow.watch.guard import Guard
from ratchet_airflow.watch.watched import Watched, watched

_STAGE = "night"
_SHARED = "missing"
"""The cause of every night that is missing because nothing was scheduled: one message for all pipelines."""

ReadDags = Callable[[Mapping[str, datetime]], Mapping[str, AirflowDag]]
"""Asks Airflow for the DAGs, and for the runs of some of them that were due after a moment each."""
_MOST_BACK = 14
"""Due nights that are looked at, from the newest one back to one that has started."""

_started: dict[tuple[str, str], tuple[date, "Missing | None"]] = {}
"""The newest due night of each pipeline that was found to have started, and what is missing before it, so that the next
scans list nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a night has not started. remedy: what brings it back. shared: what other pipelines may have too."""

    cause: str
    remedy: str
    shared: str = ""
    paused: AirflowDag | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A night that has not started. before: those right before it that have not either. last: the newest with a run."""

    day: date
    reason: Reason
    last: date | None
    before: tuple[date, ...] = ()

    @property
    def dates(self) -> str:
        """The date, or the first and the last."""
        return f"{self.before[0]} to {self.day}" if self.before else f"{self.day}"


def scan_missing_nights(
    store: Store,
    read_dags: ReadDags | None,
    runs: Sequence[Run],
    now: datetime | None = None,
    unread: RatchetError | None = None,
) -> int:
    """Report the nights of every pipeline that are due, have not started and were not reported. How many alerts.

    read_dags: None while Airflow's server cannot be read. unread: why, if it does answer.
    """
    moment, sent = now or datetime.now(UTC), 0
    everything = list(watched(store))
    since = awaited_since(store, everything, moment) if read_dags is not None else {}
    dags = (read_dags(since) if since else {}) if read_dags is not None else None
    for one in everything:
        with Guard(f"cannot look for missing nights of {one.spec.name}"):
            missing = missing_night(store, one, dags, runs, moment, unread)
            sent += missing is not None and _report(one.spec, missing)
    return sent


def awaited_since(store: Store, everything: Sequence[Watched], now: datetime) -> dict[str, datetime]:
    """The pipelines of which the store does not show whether each due night has started; since when runs may."""
    found = {}
    for one in everything:
        with Guard(f"cannot look for missing nights of {one.spec.name}"):
            moment = _unknown_since(store, one, now)
            if moment is not None:
                found[one.spec.name] = moment
    return found


def _unknown_since(store: Store, one: Watched, now: datetime) -> datetime | None:
    due = [day for _, day in islice(_due(one.spec, now), _MOST_BACK + 1)]
    known = _started.get((store.uri, one.spec.name))
    if not due or (known is not None and known[0] == due[0]):
        return None
    days = days_of(store, one.spec.name)
    first = max(due[-1], min(days, default=due[-1]))
    if due[0] in days and (len(due) == 1 or due[1] in days or due[1] < first):
        return None
    return datetime(first.year, first.month, first.day, tzinfo=UTC)  # before any run of that day, in each time zone


def due_night(spec: PipelineSpec, now: datetime) -> date | None:
    """The data date of the newest night that should have started by now; None without a schedule."""
    return next((day for _, day in _due(spec, now)), None)


def _due(spec: PipelineSpec, now: datetime) -> Iterator[tuple[datetime, date]]:
    """The nights that should have started by now, each with its tick, the newest first."""
    if spec.schedule is None:
        return
    timetable = DayBeforeTimetable(spec.schedule.cron, spec.schedule.timezone)
    tick = timetable.last_before(now - timedelta(seconds=spec.alerts.start_by))
    while True:
        yield tick, timetable.data_date(tick)
        tick = timetable.last_before(tick - timedelta(microseconds=1))


def why_missing(
    spec: PipelineSpec,
    day: date,
    broken: str | None,
    dag: AirflowDag | None,
    runs: Sequence[Run],
    before: Sequence[date] = (),
) -> Reason:
    """Why a night has not started, from what Airflow says now. broken: what is wrong with the pipeline's file."""
    again = f"then trigger the DAG {spec.name} in Airflow with {_dates((*before, day))}"
    if broken is not None:
        remedy = f"correct it until `ratchet check` passes; {again}"
        return Reason(cause=f"its file is not valid: {broken}", remedy=remedy)
    if dag is None or dag.stale or dag.import_errors:
        cause = "Airflow has no DAG of it, as when the DAG processor is away or cannot import the DAG file"
        return Reason(cause=cause, remedy=f"see the import errors in Airflow and the DAG processor's log; {again}")
    if dag.paused:
        who = f" by {dag.paused_by}" if dag.paused_by else ""
        since = f" since {dag.paused_at:%Y-%m-%d %H:%M} UTC" if dag.paused_at else ""
        cause = f"its DAG is paused{who}{since}; no other night is reported until it runs again"
        return Reason(
            cause=cause, remedy=f"nothing, if that is meant; else airflow dags unpause {spec.name}", paused=dag
        )
    return _not_scheduled(spec, day, runs, again)


def _not_scheduled(spec: PipelineSpec, day: date, runs: Sequence[Run], again: str) -> Reason:
    """Why Airflow, which has the DAG, has not started its run."""
    active = [run for run in runs if (run.dag_id, run.backfill) == (spec.name, None) and run.state not in ENDED]
    held = [run.partition or run.run_id for run in active if run.partition != f"{day}"]
    if held:
        cause = f"the run of {names(held)} has not ended, and a pipeline runs one night at a time"
        return Reason(cause=cause, remedy=f"let it end, or mark it as failed in Airflow; {again}")
    if active:
        remedy = "check that the scheduler and the workers run, and that the pools of the tasks have free slots"
        return Reason(cause="its run waits, and no task has started", remedy=remedy, shared=_SHARED)
    cause = "Airflow made no run of it, as when the scheduler was away or overloaded at the time of the schedule"
    return Reason(cause=cause, remedy=f"check the scheduler; {again}", shared=_SHARED)


def missing_night(
    store: Store,
    one: Watched,
    dags: Mapping[str, AirflowDag] | None,
    runs: Sequence[Run],
    now: datetime,
    unread: RatchetError | None = None,
) -> Missing | None:
    """The newest due night of a pipeline if it has not started, else the one before it; with those before in a row.

    dags, unread: see `scan_missing_nights`.
    """
    spec, due = one.spec, _due(one.spec, now)
    newest = next(due, None)
    if newest is None:
        return None
    day, place = newest[1], (store.uri, spec.name)
    known = _started.get(place)
    if known is not None and known[0] == day:
        left_out = known[1]  # until somebody has run it
        return left_out if left_out is not None and left_out.day not in days_of(store, spec.name) else None
    days, dag = days_of(store, spec.name), dags.get(spec.name) if dags is not None else None
    started = {*map(str, days), *(dag.started if dag is not None else ())}
    last = max(days, default=None)
    if dags is None and f"{day}" in started:
        return None  # what is missing before it, Airflow has to show
    if f"{day}" in started:
        row = _row(one, due, started)
        missing = Missing(day=row[-1], reason=_left_out(spec, row), last=last, before=row[:-1]) if row else None
        _started[place] = (day, missing)
        return missing
    if not any(one_day <= day for one_day in days) and _is_new(one.folder, spec, now):
        return None
    before = () if dag is not None and dag.paused else _row(one, due, started)
    if one.gone is not None:
        remedy = f"mount its disk, or bring the pipelines back; then trigger the DAG {spec.name} in Airflow with "
        reason = Reason(cause=one.gone, remedy=f"{remedy}{_dates((*before, day))}", shared=_SHARED)
    elif dags is None and one.broken is None:
        reason = _unread(spec, (*before, day), unread)
    else:
        reason = why_missing(spec, day, one.broken, dag, runs, before)
    return Missing(day=day, reason=reason, last=last, before=before)


def _row(one: Watched, due: Iterator[tuple[datetime, date]], started: Collection[str]) -> tuple[date, ...]:
    """The next of the due nights, back to one that has started, oldest first.

    Nobody expects those before the first run, or before the file was written, nor those of a pause, which was reported.
    """
    written, first, found = _written(one.folder), min(started, default="9"), []
    for tick, day in islice(due, _MOST_BACK):
        if f"{day}" in started or f"{day}" < first or tick < written:
            break
        found.append(day)
    row = sorted(set(found))
    if not row:
        return ()
    said = AlertHistory().alerts(_situation(one.spec, ""), ("paused",))
    paused = min((alert["date"] for alert in said if alert["date"] >= f"{row[0]}"), default="9")
    return tuple(day for day in row if f"{day}" < paused)


def _unread(spec: PipelineSpec, row: Sequence[date], error: RatchetError | None) -> Reason:
    """Why nights have no run in the store while Airflow's server cannot be read."""
    again = f"trigger the DAG {spec.name} in Airflow with {_dates(row)}"
    if error is None:
        cause = "Airflow's server does not answer, so no task can start"
        remedy = f"start it, or read its log; then {again}"
    else:
        cause = f"it has no run in the store, and the watch cannot ask Airflow why: {error.cause}"
        remedy = f"{error.remedy}; if the night has not started then, {again}"
    return Reason(cause=cause, remedy=remedy, shared=_SHARED)


def _left_out(spec: PipelineSpec, row: Sequence[date]) -> Reason:
    """Why nights have no run although a later one has."""
    cause = "it has no run, and a later night has: the scheduler, the DAG or its file was not there at its time"
    return Reason(cause=cause, remedy=f"trigger the DAG {spec.name} in Airflow with {_dates(row)}", shared=_SHARED)


def _dates(row: Sequence[date]) -> str:
    return f"each of the dates {', '.join(map(str, row))}" if len(row) > 1 else f"the date {row[0]}"


def _situation(spec: PipelineSpec, dates: str) -> Situation:
    return Situation(pipeline=spec.name, run_id=f"night-{spec.name}", stage=_STAGE, date=dates)


def _report(spec: PipelineSpec, missing: Missing) -> bool:
    reason, day = missing.reason, missing.day
    where = _situation(spec, missing.dates)
    if reason.paused is not None:
        key = event_key(where, "paused", reason.paused.paused_at or missing.last)
        alert = make_alert("paused", where, cause=reason.cause, remedy=reason.remedy)
    else:
        key = event_key(where, "missing", day)
        alert = make_alert("missing", where, cause=reason.cause, remedy=reason.remedy, shared_cause=reason.shared)
    return send_once(alert, where, key, spec.alerts, AlertHistory())


def _is_new(folder: Path, spec: PipelineSpec, now: datetime) -> bool:
    """Whether a pipeline without any night was written after its tick: nobody expects that night."""
    return any(tick < _written(folder) for tick, _ in islice(_due(spec, now), 1))


def _written(folder: Path) -> datetime:
    """When its file was written; long ago, if it is not there."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return datetime.fromtimestamp((folder / FILE).stat().st_mtime, UTC)
    return datetime.min.replace(tzinfo=UTC)
