"""What the watch reports of nights that `ratchet run` made."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ratchet.contracts.request import Outcome, RunKind
from ratchet.store.base import Store
from ratchet.store.opening import open_store
from ratchet_airflow.watch.local_nights import scan_local_nights
from tests.plugins.webhook import Webhook
from tests.runs.recorded import keep, keep_plan
from tests.runs.test_requests import DAY, JUDGED, SPEC, outcome, plan

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Apprise's own import
COMMAND = 'ratchet rollback small --because "...", or ratchet promote small@VERSION --because "..."'
STUCK = {"verdict": "inconclusive", "reason": "champion-unmeasurable", "explanation": "no weights", "command": COMMAND}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store of the pipeline `small`, whose alerts go to ml-ops."""
    folder = tmp_path / "pipelines" / "small"
    folder.mkdir(parents=True)
    (folder / "pipeline.yaml").write_text(f"{SPEC}alerts: {{to: [ml-ops]}}\n")
    monkeypatch.setenv("RATCHET_PIPELINES", str(folder.parent))
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(tmp_path / "alerts.jsonl"))
    monkeypatch.setenv("RATCHET_STORE", str(tmp_path / "store"))
    made = open_store(str(tmp_path / "store"))
    made.prepare()
    return made


def night(store: Store, number: int, kind: RunKind, **judged: Any) -> None:
    """A run of its own date that came to a verdict."""
    day = DAY + timedelta(days=number)
    made = keep_plan(store, plan(run_id=f"run-{number}", kind=kind, data_date=day, store=store.uri))
    keep(store, made, outcome("evaluate", summary={**JUDGED, **judged}))


def test_a_stuck_night_of_ratchet_run_is_reported_once_with_its_command(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert scan_local_nights(store) == 0
    night(store, 0, "local")
    assert scan_local_nights(store) == 0
    night(store, 1, "local", **STUCK)
    with Webhook().listening() as hook:
        monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
        assert [scan_local_nights(store), scan_local_nights(store)] == [1, 0]
        (received,) = hook.received
    assert received["title"] == f"small {DAY + timedelta(days=1)}: evaluate cannot measure the champion"
    assert f"What to do: {COMMAND}" in received["message"]
    night(store, 2, "scheduled", **STUCK)  # its own callback has reported it
    assert scan_local_nights(store) == 0
    (line,) = (tmp_path / "alerts.jsonl").read_text().splitlines()
    assert json.loads(line)["cause"] == "no weights"


@pytest.mark.parametrize("registered", [True, False])
def test_an_offer_is_reported_with_its_version_once_register_has_ended(
    store: Store, tmp_path: Path, *, registered: bool
) -> None:
    made = keep_plan(store, plan(run_id="offered", store=store.uri))
    keep(store, made, outcome("evaluate", summary={**JUDGED, **STUCK, "offered": True}))
    assert scan_local_nights(store) == 0
    command = 'ratchet promote small@2 --because "..."'
    summary = {"model": "small", "version": "2", "mlflow_run_id": "m", "promoted": False, "command": command}
    ended = (
        outcome("register", summary=summary) if registered else Outcome(stage="register", state="failed", because="")
    )
    keep(store, made, ended)
    assert [scan_local_nights(store), scan_local_nights(store)] == [1, 0]
    (line,) = (tmp_path / "alerts.jsonl").read_text().splitlines()
    assert json.loads(line)["remedy"].startswith(command if registered else COMMAND)


def test_a_night_without_a_verdict_yet_is_looked_at_again(store: Store) -> None:
    made = keep_plan(store, plan(run_id="running", store=store.uri))
    assert scan_local_nights(store) == 0
    keep(store, made, outcome("evaluate", summary={**JUDGED, **STUCK}))
    assert scan_local_nights(store) == 1


def test_a_torn_document_of_one_pipeline_hides_no_other(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    keep_plan(store, plan(run_id="torn", store=store.uri))
    store.create("runs/small/torn/evaluate.json", b"{")
    assert scan_local_nights(store) == 0
    assert "cannot look at the newest night of small" in caplog.text
