"""`ratchet run`: its days, and the output of `--json`. Whole runs are in tests/runs."""

import argparse
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ratchet.cli.main import main
from ratchet.cli.run import _days, as_json
from ratchet.contracts.document import Document
from ratchet.contracts.errors import DataRejected
from ratchet.contracts.exits import ExitCode
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.request import Outcome
from ratchet.contracts.result import StageResult
from ratchet.contracts.stages import Stage
from ratchet.contracts.summaries import Interval, Judgement, Registration
from ratchet.runs.local_run import LocalRun

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "dags" / "pipelines" / "search-ranking"
DAY = date(2026, 3, 20)
KEYS = {
    "date", "verdict", "reason", "metrics", "metrics.candidate", "metrics.baseline", "model", "stages", "report", "error",
}  # fmt: skip
JUDGEMENT = Judgement(
    verdict="promote", reason="better", explanation="auc is 0.1 better", metric="auc", baseline_kind="constant", baseline=None,
    candidate_metrics={"auc": 0.9}, baseline_metrics={"auc": 0.8}, gain=Interval(value=0.1, low=0.0, high=0.2),
    smallest_visible_gain=0.1, min_gain=0, confidence=0.95, holdout=(DAY,), rows=3,
)  # fmt: skip
REGISTRATION = Registration(model="m", version="1", mlflow_run_id="r", promoted=True)


def done(stage: Stage, summary: Document) -> Outcome:
    result = StageResult(
        stage=stage, fingerprint=digest(b""), parts={}, content=digest(b""), outputs={}, attempt="a",
        summary=summary.model_dump(mode="json"), finished=datetime.now(UTC),
    )  # fmt: skip
    return Outcome(stage=stage, state="done", seconds=1.5, result=result)


def keys(said: Mapping[str, Any]) -> set[str]:
    return {*said, *(f"metrics.{key}" for key in said["metrics"])}


def test_a_run_with_a_verdict_has_these_keys_and_no_other(planned: LocalRun) -> None:
    ended = LocalRun(
        plan=planned.plan,
        outcomes={"evaluate": done("evaluate", JUDGEMENT), "register": done("register", REGISTRATION)},
        error=None,
        report="/store/report.html",
    )
    said = as_json(ended)
    assert keys(said) == KEYS
    assert said == {
        "date": "2026-03-20",
        "verdict": "promote",
        "reason": "auc is 0.1 better",
        "metrics": {"candidate": {"auc": 0.9}, "baseline": {"auc": 0.8}},
        "model": {"name": "m", "version": "1"},
        "stages": [
            {"name": "evaluate", "state": "done", "seconds": 1.5, "cached": False},
            {"name": "register", "state": "done", "seconds": 1.5, "cached": False},
        ],
        "report": "/store/report.html",
        "error": None,
    }


def test_a_failed_run_has_the_same_keys_and_the_cause(planned: LocalRun) -> None:
    failed = {"ingest": Outcome(stage="ingest", state="failed", because="no rows")}
    error = DataRejected("no rows", remedy="mend it")
    said = as_json(LocalRun(plan=planned.plan, outcomes=failed, error=error, report=None))
    assert keys(said) == KEYS
    assert (said["verdict"], said["reason"], said["model"], said["report"]) == (None, "no rows", None, None)
    assert said["metrics"] == {"candidate": {}, "baseline": {}}
    assert said["error"] == {"code": 65, "cause": "no rows", "remedy": "mend it"}


def test_a_run_without_a_stage_has_no_reason(planned: LocalRun) -> None:
    assert as_json(planned)["reason"] is None


@pytest.mark.parametrize("runner", ["process", "docker"])
def test_a_gpu_that_this_host_lacks_is_named_before_anything_is_planned(
    runner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RATCHET_GPUS", "")
    store = tmp_path / "store"
    call = ["run", str(FOLDER), "--runner", runner, "--store", str(store), "--set", "resources.train.gpus=1"]
    assert main(call) == ExitCode.BAD_CONFIGURATION
    assert "resources.train needs 1 GPU, and this host has none" in capsys.readouterr().err
    assert not store.exists()


def test_help_explains_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    explained = capsys.readouterr().out.partition("--json prints")[2].splitlines()
    assert {line.split()[0] for line in explained if line.startswith("  ") and line[2] != " "} == {
        key for key in KEYS if "." not in key
    }
    assert any("candidate and baseline" in line for line in explained)


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_the_default_date_is_yesterday_in_the_pipelines_time_zone(zone: str) -> None:
    before = datetime.now(ZoneInfo(zone)).date()
    days = _days(argparse.Namespace(first=None, last=None, date=None), zone)
    after = datetime.now(ZoneInfo(zone)).date()
    assert days in {(before - timedelta(days=1),), (after - timedelta(days=1),)}
