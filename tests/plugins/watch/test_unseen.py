"""Pipelines that Airflow does not show the watch are said, and not taken for pipelines without runs."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ratchet.store.base import Store
from ratchet.store.opening import open_store
from ratchet_airflow.watch.unseen import Unseen
from tests.runs.recorded import keep_plan
from tests.runs.test_requests import SPEC, plan

HOUR = 3600.0


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """With a run of `small`, which has a file beside `fresh`, which has none."""
    for name in ("small", "fresh"):
        (tmp_path / "pipelines" / name).mkdir(parents=True)
        text = f"{SPEC}alerts: {{to: [ml-ops]}}\n".replace("name: small", f"name: {name}")
        (tmp_path / "pipelines" / name / "pipeline.yaml").write_text(text)
    for name, value in {
        "RATCHET_PIPELINES": tmp_path / "pipelines", "RATCHET_ALERT_LOG": tmp_path / "alerts.jsonl",
        "RATCHET_STORE": tmp_path / "store", "RATCHET_ALERTS_ML_OPS": "", "RATCHET_INSTALLATION": "here",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, str(value))
    made = open_store(str(tmp_path / "store"))
    made.prepare()
    keep_plan(made, plan(run_id="r", store=made.uri))
    return made


def said(tmp_path: Path) -> list[str]:
    log = tmp_path / "alerts.jsonl"
    return [json.loads(line)["body"] for line in log.read_text().splitlines()] if log.exists() else []


def test_a_pipeline_that_ran_and_is_not_shown_for_an_hour_is_said_once_a_day(store: Store, tmp_path: Path) -> None:
    seconds, now = [0.0], datetime.now(UTC)
    unseen = Unseen(lambda: seconds[0])
    for passed, seen, found in (
        (0.0, {"fresh"}, []),
        (HOUR, {"fresh"}, []),  # it may have been deleted a moment ago
        (HOUR + 1, {"fresh"}, ["small"]),
        (HOUR + 60, set[str](), ["small"]),
        (9 * HOUR, set[str](), ["small"]),  # the other one has never run
        (9 * HOUR + 1, {"small"}, []),
        (9 * HOUR + 2, {"fresh"}, []),
    ):
        seconds[0] = passed
        assert unseen.look(store, seen, now) == found
    (body,) = said(tmp_path)
    assert body.startswith("Airflow shows the watch no DAG of small, which ran in the last 3 days")
    seconds[0] = 99 * HOUR
    assert unseen.look(store, {"fresh"}, now + timedelta(days=1)) == ["small"]
    assert len(said(tmp_path)) == 2
    assert unseen.look(store, {"fresh"}, now + timedelta(days=4)) == []  # it may be none of this Airflow
    (tmp_path / "pipelines" / "small" / "pipeline.yaml").unlink()
    assert unseen.look(store, {"fresh"}, now) == []  # it was deleted
