"""The task that plans a run: what its log says of the model to beat and of the data that it takes."""

from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from ratchet.contracts.fingerprint import digest
from ratchet.store.ledger import Change, append
from ratchet.store.opening import open_store
from ratchet_airflow.plan_operator import PlanOperator

FOLDER = Path(__file__).resolve().parents[2] / "dags" / "pipelines" / "search-ranking"
MODEL = "search-ranking"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store whose ledger has a champion of 10 March and one of 20 March."""
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path))
    monkeypatch.setenv("RATCHET_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("RATCHET_RUNNER", "process")
    (tmp_path / "clicks").mkdir()
    opened = open_store(str(tmp_path / "store"))
    opened.prepare()
    for number, day in enumerate((10, 20)):
        change = Change(
            model=MODEL,
            action="promote",
            version=str(number + 1),
            fingerprint=digest(b"f"),
            model_digest=digest(bytes([number])),
            manifests={},
            data_date=date(2026, 3, day),
            window_start=date(2026, 3, day),
            pipeline=MODEL,
            run_id="r",
            reason="better",
            baseline=number or None,
            recorded=datetime.now(UTC),
        )
        append(opened, change, after=number)
    return opened.uri


@pytest.mark.parametrize(("promote", "version"), [("auto", 2), ("never", 1)])
def test_the_log_names_the_champion_that_the_run_is_measured_against(
    store: str, promote: str, version: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run = SimpleNamespace(
        run_type="manual",
        run_after=datetime(2026, 3, 21, tzinfo=UTC),
        data_interval_start=None,
        data_interval_end=None,
        partition_key=None,
        logical_date=None,
    )
    context = {"dag_run": run, "run_id": promote, "params": {"date": "2026-03-15", "promote": promote}}
    operator = PlanOperator(task_id="plan", folder=FOLDER, timezone="UTC")
    assert operator.execute(context).startswith(store)
    assert f"champion: version {version}; promotion: {promote}" in capsys.readouterr().out
