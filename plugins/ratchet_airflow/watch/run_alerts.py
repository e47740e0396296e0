"""What the watch reports about one run: a task whose process was killed, and that the run is late or stuck.

A change here violates the promise of the project when a run that may be late, stuck or failed is not looked at.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.quantities import show_duration
from ratchet.runs.outcomes import outcomes
from ratchet.store.opening import open_store
from ratchet_airflow import folders
from ratchet_airflow.alerts.alert import Alert
from ratchet_airflow.alerts.deduplication import AlertHistory, event_key, failure_key
from ratchet_airflow.alerts.delivery import send_once
from ratchet_airflow.alerts.message import make_alert
from ratchet_airflow.alerts.situation import Situation, episode_of
from ratchet_airflow.links import page_of
from ratchet_airflow.plans import find_plan
from ratchet_airflow.shares import is_share
from ratchet_airflow.watch.airflow_runs import Run, Task
from ratchet_airflow.watch.lateness import late_by, may_be_due, stuck_since

_ORDER = ("running", "queued", "failed", "success")


def worth_a_look(runs: Collection[Run], without_limit: Collection[str]) -> list[Run]:
    """The runs that may be late, stuck or failed, by what is known without their plans, the most urgent first.

    without_limit: the pipelines whose file has no schedule.finish_by. What is green or queued can only be late, and a
    run of a backfill never is.
    """
    found = [
        run
        for run in runs
        if run.state in {"running", "failed"} or (run.backfill is None and run.dag_id not in without_limit)
    ]
    return sorted(found, key=lambda run: _ORDER.index(run.state))


def scan_run(run: Run, now: datetime, tasks: Callable[[Run], tuple[Task, ...]]) -> int:
    """Report what is due about one run. The number of alerts. tasks: reads its tasks, if they matter."""
    spec, date = spec_of(run)
    if not may_be_due(run, spec, now):
        return 0
    run = replace(run, tasks=tasks(run))
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


def spec_of(run: Run) -> tuple[PipelineSpec, str]:
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
