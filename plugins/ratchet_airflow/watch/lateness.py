"""Runs that are late, and runs that are stuck: pure functions of a run and the time."""

from datetime import datetime, timedelta

from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.stages import StageSettings
from ratchet_airflow.plans import PLAN
from ratchet_airflow.watch.airflow_runs import ENDED, Run

_FACTOR = 2
"""A run is stuck after this many times the time that its slowest task may take."""
_SLACK = timedelta(minutes=30)
"""For a queue, a retry's delay, and a scheduler that was down."""


def late_by(run: Run, spec: PipelineSpec, now: datetime) -> timedelta | None:
    """How far a run is past schedule.finish_by, counted from when it was queued. None: it is not late.

    Runs of backfills are never late: nobody waits for their dates. A run that failed in time was reported as a failure.
    A run with an approval is not late, since a person may take their time.
    """
    if spec.schedule is None or spec.schedule.finish_by is None or run.backfill is not None:
        return None
    if any(task.waits_for_person or task.is_answered_question for task in run.tasks):
        return None
    took = (run.ended if run.state in ENDED and run.ended else now) - run.queued
    over = took - timedelta(seconds=spec.schedule.finish_by)
    return over if over > timedelta(0) else None


def may_be_due(run: Run, spec: PipelineSpec, now: datetime) -> bool:
    """Whether it may be late or stuck, or has failed, by what is known without its tasks: so they have to be read."""
    if run.state == "failed" or late_by(run, spec, now) is not None:
        return True
    least = min(_allowance(spec, name) for name in (*spec.sequence, PLAN))
    return run.state == "running" and now - (run.started or run.queued) > _FACTOR * least + _SLACK


def stuck_since(run: Run, spec: PipelineSpec, now: datetime) -> datetime | None:
    """When a task of the run last changed, if that is longer ago than its tasks may take. None: it is not stuck."""
    unfinished = [task for task in run.tasks if not task.done]
    if run.state != "running" or not unfinished or any(task.waits_for_person for task in unfinished):
        return None
    moments = [moment for moment in (run.started, *(task.changed for task in run.tasks)) if moment is not None]
    if not moments:
        return None
    active = [task for task in unfinished if task.state is not None] or unfinished
    allowed = max(_allowance(spec, task.task_id) for task in active)
    changed = max(moments)
    return changed if now - changed > _FACTOR * allowed + _SLACK else None


def _allowance(spec: PipelineSpec, task_id: str) -> timedelta:
    settings = next((spec.settings_of(stage) for stage in spec.sequence if stage == task_id), StageSettings())
    return timedelta(seconds=settings.timeout + settings.grace + settings.retry_delay)
