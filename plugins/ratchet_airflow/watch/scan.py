"""The watch beside the scheduler: what no callback says, found in Airflow's database and told once.

It tells of failed tasks whose process was killed, of runs that are late or do not move, and sums up backfills that have
ended. The scheduler's listener starts it (`python -m ratchet_airflow.watch.scan`) and asks for each look.
"""

import logging
import os
from datetime import UTC, datetime, timedelta

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.quantities import show_duration
from ratchet.runs.outcomes import outcomes
from ratchet.runs.planning import load_plan
from ratchet.store.opening import open_store
from ratchet_airflow import folders, settings
from ratchet_airflow.alerts.deduplication import Claims, event, failure
from ratchet_airflow.alerts.message import describe
from ratchet_airflow.watch.lateness import late_by, standing_since
from ratchet_airflow.watch.airflow_runs import ENDED, Backfill, Run, observe
from ratchet_airflow.alerts.situation import Situation, episode_of
from ratchet_airflow.watch.backfill_summary import summarise
from ratchet_airflow.alerts.delivery import tell
from ratchet_airflow.watch.watch_process import answer
from ratchet_airflow.links import page_of
from ratchet_airflow.run_id import store_run_id

_LATELY = timedelta(hours=1)
"""How long after its end a run is looked at: longer than any pause between two looks."""
_log = logging.getLogger("ratchet.alerts")


def look(now: datetime | None = None) -> bool:
    """Tell whatever is due. Whether a run goes on. now: in UTC; the clock's by default."""
    runs, backfills = observe(ended_within=_LATELY)
    for run in runs:
        try:
            look_at(run, now or datetime.now(UTC))
        except Exception:  # noqa: BLE001 - one pipeline's trouble hides no other's
            _log.exception("the alerts of %s %s could not be made", run.dag_id, run.run_id)
    for backfill in backfills:
        try:
            _sum_up(backfill)
        except Exception:  # noqa: BLE001 - the same
            _log.exception("the summary of backfill %d of %s could not be made", backfill.number, backfill.dag_id)
    return any(run.state not in ENDED for run in runs)


def look_at(run: Run, now: datetime) -> int:
    """Tell what is due about one run. How many alerts this was."""
    spec, date = _spec(run)
    claims = Claims()
    whole = Situation(
        pipeline=run.dag_id,
        run_id=run.run_id,
        date=date,
        episode=episode_of(run.started),
        link=run.link,
    )
    told = 0
    if (late := late_by(run, spec, now)) is not None:
        finish_by = show_duration(spec.schedule.finish_by) if spec.schedule and spec.schedule.finish_by else ""
        cause = f"it was to end within {finish_by} and is {show_duration(int(late.total_seconds()))} over that"
        said = describe("late", whole, cause=cause, remedy=_doing(run))
        told += tell(said, whole, event(whole, "late", run.queued), spec.alerts, claims)
    if (since := standing_since(run, spec, now)) is not None:
        cause = f"no task has moved since {since:%Y-%m-%d %H:%M} UTC; {_doing(run)}"
        remedy = "see that the scheduler, the workers and the pools of the tasks are there"
        told += tell(
            describe("stuck", whole, cause=cause, remedy=remedy),
            whole,
            event(whole, "stuck", since),
            spec.alerts,
            claims,
        )
    for task in run.tasks if run.state == "failed" else ():
        if task.state == "failed":
            where = Situation(
                pipeline=run.dag_id,
                run_id=run.run_id,
                stage=task.task_id,
                date=date,
                episode=whole.episode,
                try_number=task.try_number,
                max_tries=task.max_tries,
                link=run.task_link(task),
            )
            said = describe("failure", where, report=_report(run))
            told += tell(said, where, failure(where), spec.alerts, claims)
    return told


def _sum_up(backfill: Backfill) -> None:
    if not backfill.ended:
        return
    spec, _ = _spec(backfill.runs[-1])
    claims = Claims()
    where, name, alert = summarise(backfill, open_store(settings.read().store), claims)
    tell(alert, where, name, spec.alerts, claims)


def _spec(run: Run) -> tuple[PipelineSpec, str]:
    """What the run was planned with, and its data date; or, if it got no plan, the pipeline's file as it is."""
    try:
        plan = load_plan(settings.read().store, run.dag_id, store_run_id(run.run_id))
    except (RatchetError, OSError):
        (found,) = folders.read_one(folders.root(run.file), run.dag_id)
        return found.spec, run.partition
    return plan.spec, plan.data_date.isoformat()


def _report(run: Run) -> str:
    """The page of the run's report, which is made however the stages ended; empty if it was not."""
    try:
        made = outcomes(open_store(settings.read().store), run.dag_id, store_run_id(run.run_id)).get("report")
    except (RatchetError, OSError):
        return ""
    if made is None or made.result is None or "page.html" not in made.result.outputs:
        return ""
    return run.page(page_of(run.dag_id, made.result))


def _doing(run: Run) -> str:
    tasks = [f"{task.task_id} is {task.state}" for task in run.tasks if task.state and not task.done]
    return ", ".join(tasks) or f"the run is {run.state}"


if __name__ == "__main__":
    os.nice(10)  # what runs comes first
    answer(look)
