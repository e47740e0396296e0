"""A run that is planned, on a few days of clicks."""

from datetime import date
from pathlib import Path

import pytest

from ratchet.contracts.loading import load
from ratchet.runs.local_run import LocalRun
from ratchet.runs.planning import make_plan
from ratchet.samples import clicks

FOLDER = Path(__file__).resolve().parents[2] / "dags" / "pipelines" / "search-ranking"
DAY = date(2026, 3, 20)


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalRun:
    """A planned run of which no stage has run."""
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path))
    for _ in clicks.write(tmp_path, days=3, rows_per_day=20, end=DAY, seed=0):
        pass
    spec = load(FOLDER, {"source.window_days": 3})
    store = str(tmp_path / "store")
    plan = make_plan(folder=FOLDER, spec=spec, data_date=DAY, run_id="r", kind="local", store_uri=store)
    return LocalRun(plan=plan, outcomes={}, error=None, report=None)
