"""The watch beside the scheduler: it finds in Airflow's database what no callback reports, and sends it once.

It reports failed tasks whose process was killed, runs that are late or stuck, nights that never started, the end of
each backfill, changes of production by hand, which it finds in the ledgers, decisions about days, and a night of
`ratchet run` that asks for a person. Once a day it makes the digest of each receiver. Before all that it delivers what
waits in the outbox. The scheduler's listener starts it (`python -m ratchet_airflow.watch.scan`) and asks for each scan.
"""

import os
from datetime import UTC, datetime, timedelta
from itertools import count

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.quantities import show_duration
from ratchet.outbox.deadline import Deadline
from ratchet.runs.outcomes import outcomes
from ratchet.store.base import Store
from ratchet.store.opening import open_store
from ratchet_airflow import folders, settings
from ratchet_airflow.alerts.alert import Alert
from ratchet_airflow.alerts.deduplication import AlertHistory, event_key, failure_key
from ratchet_airflow.alerts.delivery import outbox_of, send_once
from ratchet_airflow.alerts.message import make_alert
from ratchet_airflow.alerts.situation import Situation, episode_of
from ratchet_airflow.links import page_of
from ratchet_airflow.plans import find_plan
from ratchet_airflow.shares import is_share
from ratchet_airflow.watch import waiting
from ratchet_airflow.watch.airflow_runs import ENDED, Backfill, Run, Task, read_dags, read_runs, scheduler_is_alive
from ratchet_airflow.watch.backfill_summary import summarise
from ratchet_airflow.watch.decided_days import scan_decided_days
from ratchet_airflow.watch.digest import scan_digest
from ratchet_airflow.watch.guard import Guard
from ratchet_airflow.watch.heartbeat import beat
from ratchet_airflow.watch.lateness import late_by, stuck_since
from ratchet_airflow.watch.local_nights import scan_local_nights
from ratchet_airflow.watch.missing_nights import scan_missing_nights
from ratchet_airflow.watch.production import scan_ledgers
from ratchet_airflow.watch.watch_process import serve

_KEEP = timedelta(hours=1)
"""How long after its end a run is scanned, beside the time since the last scan that looked at all runs."""
_FIRST = timedelta(days=1)
"""The same for the first scan: the store, or the watch itself, may have been away."""
_OPEN_S, _DELIVER_S = 40.0, 40.0
"""Seconds to post what this host has kept, and to send what waits; together less than a scan may take."""
_IDLE = 12
"""While no run is active, one scan of so many looks for what people did at a command line."""
_rounds = count()
_scanned: dict[str, datetime] = {}
"""By store, when the last scan began that looked at all runs."""


def scan(now: datetime | None = None) -> bool:
    """Report all that is due. Whether a run is active. now: in UTC; the clock's by default."""
    store = waiting.open_outbox(Deadline(_OPEN_S))
    if store is None:
        return True  # nothing can be claimed until it answers, and people were alerted to that
    waiting.deliver(store, Deadline(_DELIVER_S))  # first, so that no number of runs and no fault holds it
    moment = now or datetime.now(UTC)
    last = _scanned.get(store.uri)
    runs: list[Run] = []
    backfills: list[Backfill] = []
    with Guard("cannot read the runs from Airflow's database") as reading:
        runs, backfills = read_runs(ended_within=_FIRST if last is None else _KEEP + max(moment - last, timedelta(0)))
    for run in runs:
        with Guard(f"cannot make the alerts of {run.dag_id} {run.run_id}"):
            scan_run(run, moment)
    for backfill in backfills:
        with Guard(f"cannot make the summary of backfill {backfill.number} of {backfill.dag_id}"):
            _scan_backfill(backfill)
    with Guard("cannot look for missing nights"):
        if not reading.failed:
            scan_missing_nights(store, read_dags(), runs, now)
    if not reading.failed:
        _scanned[store.uri] = moment
    with Guard("cannot make the digest"):
        if not reading.failed:
            scan_digest(store, read_dags, runs, now)
    active = reading.failed or any(run.state not in ENDED for run in runs)
    with Guard("cannot send the heartbeat"):
        if not reading.failed:
            beat(outbox_of(store), datetime.now(UTC), scheduler=scheduler_is_alive())
    if active or next(_rounds) % _IDLE == 0:
        _scan_what_people_did(store)
    return active


def _scan_what_people_did(store: Store) -> None:
    """Each costs a few lists of names for every pipeline."""
    with Guard("cannot look for what was done at a command line"):
        scan_ledgers(store)
        scan_decided_days(store)
        scan_local_nights(store)


def scan_run(run: Run, now: datetime) -> int:
    """Report what is due about one run. The number of alerts."""
    spec, date = _spec(run)
    history = AlertHistory()
    whole = Situation(
        pipeline=run.dag_id,
        run_id=run.run_id,
        date=date,
        episode=episode_of(run.started),
        link=run.link,
    )
    due = [_late(run, spec, whole, now), _stuck(run, spec, whole, now)]
    if run.state == "failed":
        due += [
            _failure(run, task, whole) for task in run.tasks if task.state == "failed" and not is_share(task.task_id)
        ]
    return sum(send_once(alert, where, key, spec.alerts, history) for alert, where, key in filter(None, due))


_Due = tuple[Alert, Situation, str]


def _late(run: Run, spec: PipelineSpec, whole: Situation, now: datetime) -> _Due | None:
    late = late_by(run, spec, now)
    if late is None:
        return None
    finish_by = show_duration(spec.schedule.finish_by) if spec.schedule and spec.schedule.finish_by else ""
    cause = f"the run is {show_duration(int(late.total_seconds()))} past its limit of {finish_by} (schedule.finish_by)"
    alert = make_alert("late", whole, cause=cause, remedy=f"see why the run takes long: {_activity(run)}")
    return alert, whole, event_key(whole, "late", run.queued)


def _stuck(run: Run, spec: PipelineSpec, whole: Situation, now: datetime) -> _Due | None:
    since = stuck_since(run, spec, now)
    if since is None:
        return None
    cause = f"no task has changed its state since {since:%Y-%m-%d %H:%M} UTC; {_activity(run)}"
    remedy = "check that the scheduler and the workers run, and that the pools of the tasks have free slots"
    return make_alert("stuck", whole, cause=cause, remedy=remedy), whole, event_key(whole, "stuck", since)


def _failure(run: Run, task: Task, whole: Situation) -> _Due:
    where = Situation(
        pipeline=run.dag_id,
        run_id=run.run_id,
        stage=task.task_id,
        date=whole.date,
        episode=whole.episode,
        try_number=task.try_number,
        max_tries=task.max_tries,
        link=run.task_link(task),
    )
    return make_alert("failure", where, report=_report(run)), where, failure_key(where)


def _scan_backfill(backfill: Backfill) -> None:
    if not backfill.ended:
        return
    spec, _ = _spec(backfill.runs[-1])
    history = AlertHistory()
    where, key, alert = summarise(backfill, open_store(settings.read().store), history)
    send_once(alert, where, key, spec.alerts, history)


def _spec(run: Run) -> tuple[PipelineSpec, str]:
    """The spec of the run's plan, and its data date. Without a plan: the pipeline's file of now, and the partition."""
    try:
        plan = find_plan(run.dag_id, run.run_id)
    except (RatchetError, OSError):
        (found,) = folders.read_one(folders.root(run.file), run.dag_id)
        return found.spec, run.partition
    return plan.spec, plan.data_date.isoformat()


def _report(run: Run) -> str:
    """The address of the run's report; empty if it was not made."""
    try:
        plan = find_plan(run.dag_id, run.run_id)
        made = outcomes(open_store(plan.store), run.dag_id, plan.run_id).get("report")
    except (RatchetError, OSError):
        return ""
    if made is None or made.result is None or "page.html" not in made.result.outputs:
        return ""
    return run.page(page_of(run.dag_id, made.result))


def _activity(run: Run) -> str:
    tasks = [f"{task.task_id} is {task.state}" for task in run.tasks if task.state and not task.done]
    return ", ".join(tasks) or f"the run is {run.state}"


if __name__ == "__main__":
    os.nice(10)  # the runs come first
    serve(scan)
