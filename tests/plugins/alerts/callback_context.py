"""What Airflow gives the callbacks of alerts, for tests."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from ratchet.contracts.alerts import Alerts
from ratchet_airflow.alerts.callbacks import AlertCallbacks

LINK = "http://127.0.0.1:8080/dags/search-ranking/runs/r1/tasks/validate?try_number=1"
RUN_LINK = "http://127.0.0.1:8080/dags/search-ranking/runs/r1"
NIGHT = datetime(2026, 11, 21, 2, tzinfo=UTC)


def callbacks(on: tuple[str, ...] | None = None, to: tuple[str, ...] = ("ml-ops",)) -> AlertCallbacks:
    """Of a pipeline whose file says so; on: the default unless given."""
    said: dict[str, Any] = {"to": to} if on is None else {"to": to, "on": on}
    return AlertCallbacks(pipeline="search-ranking", timezone="UTC", alerts=Alerts.model_validate(said))


def context(
    error: BaseException | None,
    *,
    try_number: int = 1,
    max_tries: int = 2,
    run_id: str = "r1",
    started: datetime = NIGHT,
    stage: str = "validate",
    **task: Any,
) -> dict[str, Any]:
    """What a callback of a task with two retries is given."""
    run = SimpleNamespace(
        start_date=started,
        run_after=NIGHT,
        partition_key="2026-11-20",
        logical_date=None,
        data_interval_start=None,
        data_interval_end=None,
    )
    instance = SimpleNamespace(
        task_id=stage,
        try_number=try_number,
        max_tries=max_tries,
        log_url=LINK.replace("try_number=1", f"try_number={try_number}"),
        task=SimpleNamespace(**{"retries": 2, **task}),
    )
    found = {"ti": instance, "dag_run": run, "params": {"date": None}, "run_id": run_id}
    return found if error is None else {**found, "exception": error}
