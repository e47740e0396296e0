"""Runs and tasks as Airflow has them, for tests."""

from datetime import UTC, datetime, timedelta

from ratchet_airflow.watch.airflow_runs import Run, Task

QUEUED = datetime(2026, 11, 21, 2, tzinfo=UTC)


def task(name: str, state: str | None, changed: timedelta | None = timedelta(0)) -> Task:
    return Task(
        task_id=name, state=state, try_number=1, max_tries=2, changed=None if changed is None else QUEUED + changed
    )


def run(*tasks: Task, state: str = "running", ended: timedelta | None = None, day: int = 20) -> Run:
    return Run(
        dag_id="search-ranking",
        file="",
        run_id=f"backfill__2026-11-{day}",
        state=state,
        partition=f"2026-11-{day}",
        queued=QUEUED,
        started=QUEUED,
        ended=None if ended is None else QUEUED + ended,
        backfill=None,
        tasks=tasks,
    )
