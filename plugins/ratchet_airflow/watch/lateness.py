"""Runs that are late, and runs that do not move: pure arithmetic on what was observed."""

from datetime import datetime, timedelta

from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.stages import StageSettings
from ratchet_airflow.watch.airflow_runs import ENDED, Run

_FAR_LONGER = 2
_SLACK = timedelta(minutes=30)
"""For a queue, a retry's delay, and a scheduler that was down for a while."""


def late_by(run: Run, spec: PipelineSpec, now: datetime) -> timedelta | None:
    """How much longer than schedule.finish_by a run has taken since it was queued. None: not longer, or no matter.

    A run of a backfill is about a date for which nobody waits. One that failed in time was told as a failure. Once a
    person was asked, the time is theirs.
    """
    if spec.schedule is None or spec.schedule.finish_by is None or run.backfill is not None:
        return None
    if any(task.waits_for_people or task.was_answered for task in run.tasks):
        return None
    took = (run.ended if run.state in ENDED and run.ended else now) - run.queued
    over = took - timedelta(seconds=spec.schedule.finish_by)
    return over if over > timedelta(0) else None


def standing_since(run: Run, spec: PipelineSpec, now: datetime) -> datetime | None:
    """When a task of a running run last moved, if that is far longer ago than its tasks may take."""
    unfinished = [task for task in run.tasks if not task.done]
    if run.state != "running" or not unfinished or any(task.waits_for_people for task in unfinished):
        return None
    moments = [moment for moment in (run.started, *(task.moved for task in run.tasks)) if moment is not None]
    if not moments:
        return None
    active = [task for task in unfinished if task.state is not None] or unfinished
    allowed = max(_allowed(spec, task.task_id) for task in active)
    moved = max(moments)
    return moved if now - moved > _FAR_LONGER * allowed + _SLACK else None


def _allowed(spec: PipelineSpec, task_id: str) -> timedelta:
    settings = next((of for stage, of in spec.stages.items() if stage == task_id), StageSettings())
    return timedelta(seconds=settings.timeout + settings.grace + settings.retry_delay)
