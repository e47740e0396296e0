"""All stages of a run, in order, as processes. Whole runs are in test_run and test_examples."""

import uuid
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from ratchet.contracts.errors import DataRejected
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.loading import load
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.result import Artifact
from ratchet.contracts.stages import Stage
from ratchet.production.reconcile import Reconciled
from ratchet.runners.process import ProcessRunner
from ratchet.runs.events import Event
from ratchet.runs.local_run import LocalRun, attempt_stage, page_of, run_stages
from ratchet.runs.outcomes import outcomes
from ratchet.runs.planning import make_plan
from ratchet.samples import clicks
from ratchet.store.ledger import append
from ratchet.store.memory import MemoryStore
from ratchet.store.opening import open_store
from tests.runs.test_requests import CONTENT, JUDGED, OUTCOMES, outcome, plan
from tests.store.test_ledger import change

FOLDER = Path(__file__).resolve().parents[2] / "dags" / "pipelines" / "search-ranking"
DAY = date(2026, 3, 20)


def planned(folder: Path, monkeypatch: pytest.MonkeyPatch, *, days: int) -> RunPlan:
    """A run that needs three days, of which there are `days`."""
    monkeypatch.setenv("RATCHET_DATA", str(folder))
    for _ in clicks.write(folder, days=days, rows_per_day=50, end=DAY, seed=0):
        pass
    spec = load(FOLDER, {"source.window_days": 3})
    return make_plan(folder=FOLDER, spec=spec, data_date=DAY, run_id="r", kind="local", store_uri=str(folder / "store"))


def test_after_a_failure_only_the_report_runs_and_the_error_is_the_run_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = planned(tmp_path, monkeypatch, days=2)
    seen: list[tuple[Stage, str | None]] = []
    events: list[tuple[Stage, Event]] = []

    def on_stage(stage: Stage, ended: Outcome | None) -> None:
        seen.append((stage, ended.state if ended else None))
        assert ended is None or ended.seconds > 0

    run = run_stages(
        made, ProcessRunner(), on_stage=on_stage, on_event=lambda stage, event: events.append((stage, event))
    )
    assert seen == [("ingest", None), ("ingest", "failed"), ("report", None), ("report", "done")]
    assert isinstance(run.error, DataRejected)
    assert "2026-03-18" in run.error.cause
    assert run.outcomes == outcomes(open_store(made.store), "search-ranking", "r")
    assert (run.outcomes["ingest"].state, run.outcomes["ingest"].because) == ("failed", run.error.cause)
    assert run.outcomes["ingest"].last_lines
    assert (run.judgement, run.registration) == (None, None)
    assert run.report is not None
    assert "2026-03-18" in Path(run.report).read_text(encoding="utf-8")
    assert {stage for stage, _ in events} == {"ingest", "report"}


def test_an_attempt_at_a_stage_is_recorded_and_the_next_finds_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = planned(tmp_path, monkeypatch, days=3)
    first, second = (
        attempt_stage(made, "ingest", ProcessRunner(), name=name, on_event=print) for name in ("one", "two")
    )
    assert (first.state, first.cached, first.because) == ("done", False, "no result is stored yet")
    assert first.last_lines
    assert (second.cached, second.because, second.manifest) == (True, "its result is stored", first.manifest)
    assert outcomes(open_store(made.store), "search-ranking", "r")["ingest"] == second


def test_a_run_has_the_verdict_and_the_version_of_its_stages() -> None:
    version = {"model": "small", "version": "7", "mlflow_run_id": "r", "promoted": True}
    ended: dict[Stage, Outcome] = {
        "evaluate": outcome("evaluate", summary=JUDGED),
        "register": outcome("register", summary=version),
    }
    run = LocalRun(plan=plan(), outcomes=ended, error=None, report=None)
    assert run.judgement is not None
    assert run.judgement.verdict == "promote"
    assert run.registration is not None
    assert run.registration.version == "7"


def test_a_version_of_the_model_in_production_with_other_code_is_not_in_production() -> None:
    reason = "production has the same model as version 7, with the code by which that was evaluated"
    version = {"model": "small", "version": "8", "mlflow_run_id": "r", "promoted": False, "withheld": reason}
    ended: dict[Stage, Outcome] = {
        "train": OUTCOMES["train"],
        "register": outcome("register", summary=version),
    }
    store = MemoryStore(uuid.uuid4().hex)
    live = append(store, change("7", 20, model="small", model_digest=CONTENT), after=0)
    run = LocalRun(plan=plan(), outcomes=ended, error=None, report=None, production=Reconciled(live=live))
    assert run.in_production == f"not in production ({reason})"
    own = outcome("register", summary={**version, "version": "7"})  # promoted by hand since
    assert replace(run, outcomes={**ended, "register": own}).in_production == "in production"


def test_the_report_is_a_file_of_a_folder_store_and_an_address_elsewhere(tmp_path: Path) -> None:
    page = {"page.html": Artifact(key="published/p", sha256=digest(b""), bytes=0)}
    result = OUTCOMES["report"].result
    assert result is not None
    with_page = OUTCOMES["report"].model_copy(update={"result": result.model_copy(update={"outputs": page})})
    folder = open_store(str(tmp_path))
    folder.create("published/p", b"")
    assert page_of(folder, {"report": with_page}) == str(tmp_path / "published" / "p")
    assert page_of(MemoryStore("m"), {"report": with_page}) == "mem://m/published/p"
    assert page_of(folder, {}) is None
    assert page_of(folder, {"report": Outcome(stage="report", state="failed")}) is None
