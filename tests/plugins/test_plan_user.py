"""The plan of a run in Airflow says who started it, and keeps the gate of the file."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from airflow.sdk.api.datamodels._generated import DagRun

from ratchet.runs.planning import load_plan
from ratchet.samples import clicks
from ratchet_airflow.plan_operator import PlanOperator
from ratchet_airflow.run_id import store_run_id

FOLDER = Path(__file__).resolve().parents[2] / "dags" / "pipelines" / "search-ranking"
NOON = datetime(2026, 3, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(("user", "recorded"), [("ada", "ada"), (None, "")])
def test_the_user_who_triggered_a_run_is_in_its_plan(
    user: str | None, recorded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in clicks.write(tmp_path / "data", days=3, rows_per_day=20, end=NOON.date(), seed=0):
        pass
    store = str(tmp_path / "store")
    for name, value in {"DATA": str(tmp_path / "data"), "STORE": store, "RUNNER": "process"}.items():
        monkeypatch.setenv(f"RATCHET_{name}", value)
    run = DagRun.model_validate({
        "dag_id": "search-ranking", "run_id": "manual__1", "run_after": NOON, "run_type": "manual", "state": "running",
        "start_date": NOON, "consumed_asset_events": [], "triggering_user_name": user,
        **dict.fromkeys(("logical_date", "data_interval_start", "data_interval_end", "end_date", "partition_key")),
    })  # fmt: skip
    params = {"date": "2026-03-21", "window_days": 3, "gate.confidence": "80%", "register.promote": "never"}
    operator = PlanOperator(task_id="plan", folder=FOLDER, timezone="UTC")
    operator.execute({"params": params, "dag_run": run, "run_id": run.run_id})
    plan = load_plan(store, "search-ranking", store_run_id(run.run_id))
    assert plan.started_by == recorded
    assert plan.overrides == {"source.window_days": "3"}
    assert plan.spec.gate.confidence == 0.95
    assert plan.promotion.mode == "auto"
