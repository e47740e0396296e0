"""A run's plan is found by every component, and no run finds the plan of another installation."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError
from ratchet.runs.history import plan_of
from ratchet.samples import clicks
from ratchet.store.opening import open_store
from ratchet_airflow.plan_operator import PlanOperator
from ratchet_airflow.plans import find_plan
from ratchet_airflow.run_id import bare_run_id, store_run_id

PIPELINE = "search-ranking"
FOLDER = Path(__file__).resolve().parents[2] / "dags" / "pipelines" / PIPELINE
RUN = "scheduled__2026-03-21T02:00:00+00:00"
NIGHT = datetime(2026, 3, 21, 2, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for _ in clicks.write(tmp_path / "data", days=3, rows_per_day=20, end=NIGHT.date(), seed=0):
        pass
    uri = str(tmp_path / "store")
    for name, value in {"DATA": str(tmp_path / "data"), "STORE": uri, "RUNNER": "process"}.items():
        monkeypatch.setenv(f"RATCHET_{name}", value)
    monkeypatch.setenv("RATCHET_INSTALLATION", "production")
    return uri


def plan(**asked: Any) -> str:
    run = SimpleNamespace(
        run_type="scheduled", run_after=NIGHT, data_interval_start=None, data_interval_end=None,
        partition_key="2026-03-21", logical_date=None, triggering_user_name=None,
    )  # fmt: skip
    context = {"params": {"window_days": 3, **asked}, "dag_run": run, "run_id": RUN}
    return PlanOperator(task_id="plan", folder=FOLDER, timezone="UTC").execute(context)


def test_the_same_night_of_two_installations_has_two_plans(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan(epochs=3)
    monkeypatch.setenv("RATCHET_INSTALLATION", "staging")
    plan(epochs=1, promote="never")
    staged = find_plan(PIPELINE, RUN)
    assert (staged.spec.train.epochs, staged.promotion.mode) == (1, "never")
    monkeypatch.setenv("RATCHET_INSTALLATION", "production")
    nightly = find_plan(PIPELINE, RUN)
    assert (nightly.spec.train.epochs, nightly.promotion.mode) == (3, "auto")
    assert (nightly.origin, staged.origin) == (RUN, RUN)


def test_a_run_that_an_earlier_release_planned_is_found(store: str) -> None:
    plan()
    old = rename(store, bare_run_id(RUN))
    assert find_plan(PIPELINE, RUN) == old


def test_a_plan_of_another_run_is_not_taken_for_one_of_an_earlier_release(store: str) -> None:
    plan()
    rename(store, "night", origin="another")
    with pytest.raises(ConfigurationError, match=r"no run 'night\.production'"):
        find_plan(PIPELINE, "night")


def test_a_task_finds_its_plan_after_the_name_of_the_installation_has_changed(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = plan()
    made = find_plan(PIPELINE, RUN)
    monkeypatch.setenv("RATCHET_INSTALLATION", "renamed")
    with pytest.raises(ConfigurationError):
        find_plan(PIPELINE, RUN)
    context = {"ti": SimpleNamespace(xcom_pull=lambda task_ids: address if task_ids == "plan" else None)}
    assert find_plan(PIPELINE, RUN, context) == made
    nothing = {"ti": SimpleNamespace(xcom_pull=lambda task_ids: None)}
    with pytest.raises(ConfigurationError):
        find_plan(PIPELINE, RUN, nothing)


def rename(uri: str, run_id: str, origin: str = RUN) -> object:
    """The plan of RUN as if it had been made under another id."""
    opened = open_store(uri)
    made = plan_of(opened, PIPELINE, store_run_id(RUN))
    assert made is not None
    changed = made.model_copy(update={"run_id": run_id, "origin": origin})
    opened.create(paths.plan(PIPELINE, run_id), changed.model_dump_json(by_alias=True).encode())
    entry = opened.head(paths.plan(PIPELINE, made.run_id))
    assert entry is not None
    opened.delete(entry.key, expected=entry.etag)
    return changed
