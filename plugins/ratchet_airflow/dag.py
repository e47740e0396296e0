"""From a pipeline's spec to its DAG. Equal specs give equal bytes, or Airflow would store a version at each parse."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator, chain
from airflow.sdk.definitions.mappedoperator import MappedOperator

from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.source import wait_limit
from ratchet.contracts.stages import STAGES, StageSettings
from ratchet_airflow.alerts.callbacks import AlertCallbacks
from ratchet_airflow.dag_doc import dag_doc
from ratchet_airflow.form import params
from ratchet_airflow.operators import StageOperator
from ratchet_airflow.plan_operator import PlanOperator
from ratchet_airflow.pools import share
from ratchet_airflow.retries import BACKOFF, LOST_DELAY, MAX_DELAY, StageRetryPolicy
from ratchet_airflow.shares import share_tasks
from ratchet_airflow.timetable import DayBeforeTimetable

_MARGIN_S = 60
"""Airflow's time limit is this much longer than the runner's, which cleans up and so has to come first."""
_PLANNING = StageSettings()


def build(spec: PipelineSpec, folder: Path) -> DAG:
    """The DAG of a pipeline: plan -> ingest -> ... -> (approve) -> (refit) -> register, and report whatever happens."""
    schedule = spec.schedule
    timezone = schedule.timezone if schedule else "UTC"
    callbacks = AlertCallbacks(pipeline=spec.name, timezone=timezone, alerts=spec.alerts)
    dag = DAG(
        dag_id=spec.name,
        description=spec.description or None,
        doc_md=dag_doc(spec),
        schedule=DayBeforeTimetable(schedule.cron, timezone) if schedule else None,
        catchup=False,
        max_active_tasks=_most_tasks(
            spec
        ),  # more than it has; given here so that Airflow does not look it up in its configuration
        max_active_runs=1,  # runs are judged in order, each against the champion that the one before left
        dagrun_timeout=_run_timeout(spec),
        tags=sorted({"ratchet", spec.train.objective, spec.owner}),
        on_failure_callback=callbacks.on_run_failure,
    )
    tasks = _tasks(spec, folder, timezone, callbacks)
    dag.params.update(params(spec))  # not above: there each default is checked against its schema, 2 ms
    shares = {
        place: made
        for place, stage in enumerate(spec.sequence)
        if (made := share_tasks(spec, stage, _limit(spec.settings_of(stage))))
    }
    everything: list[BaseOperator | MappedOperator] = [*tasks, *shares.values()]
    for task in everything:
        dag.add_task(task)  # not `dag=` above, with which Airflow copies the whole form into every task
    chain(*tasks)
    for place, made in shares.items():
        tasks[place] >> made  # tasks[0] is the plan, so this is the one before the stage's own
    # A teardown runs however the stages ended, and the stages alone set the run's state. With on_failure_fail_dagrun
    # the report would set it, and a run with rejected data would be green.
    tasks[-1].as_teardown(setups=tasks[0])
    return dag


def _most_tasks(spec: PipelineSpec) -> int:
    """More than it has."""
    return len(STAGES) + 2 + sum(resources.tasks - 1 for resources in spec.resources.values())


def _tasks(spec: PipelineSpec, folder: Path, timezone: str, callbacks: AlertCallbacks) -> list[BaseOperator]:
    """The tasks in order; report is the last."""
    shared = {
        "owner": spec.owner,
        "on_execute_callback": callbacks.on_start,
        "on_success_callback": callbacks.on_success,
        "on_failure_callback": callbacks.on_failure,
        "on_retry_callback": callbacks.on_retry,
    }
    planning = {**shared, **_handling(_PLANNING), "on_outage": callbacks.on_outage, "handling": _PLANNING}
    plan = PlanOperator(task_id="plan", folder=folder, timezone=timezone, **planning)
    tasks: list[BaseOperator] = [plan]
    decided = "refit" if spec.train.refit else "register"
    for stage in spec.sequence:
        handling = {**shared, **_handling(spec.settings_of(stage))}
        if stage == decided and spec.register_.promote == "approve":  # a no costs no refit
            tasks.append(_approval(spec, callbacks, shared))
        if stage == "evaluate":
            handling["on_success_callback"] = [callbacks.on_success, callbacks.on_judgement]
        if stage == "register":
            handling |= {
                "on_skipped_callback": callbacks.on_skip,
                "on_success_callback": [callbacks.on_success, callbacks.on_registration],
            }
        handling |= share(spec.resources_of(stage))
        handling |= {"on_outage": callbacks.on_outage, "handling": spec.settings_of(stage)}
        tasks.append(StageOperator(pipeline=spec.name, stage=stage, **handling))
    return tasks


def _approval(spec: PipelineSpec, callbacks: AlertCallbacks, shared: dict[str, Any]) -> BaseOperator:
    from ratchet_airflow.approval import ApproveOperator

    handling = _handling(_PLANNING)
    handling.pop("execution_timeout")  # a person has its own time limit
    return ApproveOperator(pipeline=spec.name, callbacks=callbacks, **shared, **handling)


def _limit(settings: StageSettings) -> timedelta:
    return timedelta(seconds=settings.timeout + settings.grace + _MARGIN_S)


def _handling(settings: StageSettings) -> dict[str, Any]:
    return {
        "retries": settings.retries,
        "retry_delay": LOST_DELAY,
        "retry_exponential_backoff": BACKOFF,
        "max_retry_delay": MAX_DELAY,
        "retry_policy": StageRetryPolicy(settings.retry_delay),
        "execution_timeout": _limit(settings),
    }


def _run_timeout(spec: PipelineSpec) -> timedelta:
    """Twice what the stages may take in one try each, after the wait for a late source and the longest outage.

    It is an end for a run that hangs.
    """
    limits = [spec.settings_of(stage) for stage in spec.sequence]
    busy_s = 2 * sum(settings.timeout + settings.grace for settings in limits)
    away_s = max(settings.outage_s for settings in limits)
    stages = timedelta(seconds=busy_s + away_s + wait_limit(spec.source, scheduled=True))
    if spec.register_.promote == "approve":
        from ratchet_airflow.approval import WAIT

        return stages + WAIT
    return stages
