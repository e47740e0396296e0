"""`ratchet run`: its days, and the output of `--json`. Whole runs are in tests/runs."""

import argparse
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ratchet.cli.main import main
from ratchet.cli.pipelines import find, overrides
from ratchet.cli.run import _days, as_json, configure
from ratchet.contracts.document import Document
from ratchet.contracts.errors import ConfigurationError, DataRejected
from ratchet.contracts.exits import ExitCode
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.judgements import Interval
from ratchet.contracts.registration import Registration
from ratchet.contracts.request import Outcome
from ratchet.contracts.result import StageResult
from ratchet.contracts.stages import Stage
from ratchet.contracts.summaries import Judgement
from ratchet.runs.local_run import LocalRun
from tests.s3 import S3Server

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "dags" / "pipelines" / "search-ranking"
DAY = date(2026, 3, 20)
KEYS = {
    "date", "verdict", "reason", "metrics", "metrics.candidate", "metrics.baseline", "model", "production", "stages", "report",
    "error",
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
        "production": {"version": None, "record": None, "live": False, "finding": None, "unchecked": None},
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


def asked(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    configure(parser)
    return parser.parse_args(["search-ranking", *arguments])


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (("--date", ""), "--date"),
        (("--date", " "), "--date"),
        (("--from", "", "--to", ""), "--from"),
        (("--from", "2026-03-19", "--to", ""), "--to"),
    ],
)
def test_an_empty_date_is_refused_and_never_yesterday(arguments: tuple[str, ...], key: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{key} is empty, as from a shell variable that is not set"):
        _days(asked(*arguments), "UTC")


def test_a_range_without_its_end_is_refused_also_if_its_start_is_empty() -> None:
    for arguments in (("--from", ""), ("--to", ""), ("--from", "", "--to", "", "--date", "2026-03-19")):
        with pytest.raises(ConfigurationError, match="--from and --to go together"):
            _days(asked(*arguments), "UTC")


def test_an_override_without_a_value_is_refused_by_its_key() -> None:
    with pytest.raises(ConfigurationError, match=r"--set train\.epochs has no value, as from a shell variable"):
        overrides(["train.epochs="])
    assert overrides(["validate.drift=null"]) == {"validate.drift": None}


def test_an_empty_pipeline_is_not_the_one_in_the_current_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    with pytest.raises(ConfigurationError, match="PIPELINE is empty"):
        find("")


@pytest.mark.parametrize(
    ("arguments", "code", "cause", "remedy"),
    [
        (("search-ranking", "--set", "train.epochs=0"), 64, "--set train.epochs: train.epochs: ", "correct the key"),
        (("nothing-such",), 64, "nothing-such: no pipeline found", "create nothing-such"),
        (("",), 64, "PIPELINE is empty", "name a pipeline"),
        (("search-ranking", "--date", ""), 64, "--date is empty", "write it like 2026-11-20"),
        (("search-ranking", "--date", "tomorrow"), 64, "--date: 'tomorrow' is not a date", "write it like 2026-11-20"),
        (("search-ranking", "--store", "ftp://x"), 64, "'ftp://x' is not the URI of a store", "use a folder's path"),
        (("search-ranking", "--set", "epochs"), 64, "--set 'epochs' is not KEY=VALUE", "write it like"),
    ],
)
def test_what_is_wrong_before_the_first_stage_is_an_object_too(
    arguments: tuple[str, ...],
    code: int,
    cause: str,
    remedy: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path))
    assert main(["run", "--runner", "process", "--json", *arguments]) == code
    printed = capsys.readouterr()
    said = json.loads(printed.out)
    assert keys(said) == KEYS
    assert said["error"]["code"] == code
    assert said["error"]["cause"].startswith(cause)
    assert said["error"]["remedy"].startswith(remedy)
    assert (said["reason"], said["date"], said["stages"]) == (said["error"]["cause"], None, [])
    assert cause in printed.err


def test_a_store_that_does_not_answer_is_an_object_with_exit_code_69(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, s3: S3Server
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    arguments = ["run", "search-ranking", "--runner", "process", "--json", "--date", "2026-03-20"]
    assert main([*arguments, "--store", f"s3://{s3.bucket}/x"]) == 69
    said = json.loads(capsys.readouterr().out)
    assert (said["error"]["code"], bool(said["error"]["cause"]), bool(said["error"]["remedy"])) == (69, True, True)


def test_a_range_whose_planning_fails_is_a_list_with_the_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path))
    dates = ["--from", "2026-03-19", "--to", "2026-03-20", "--store", str(tmp_path / "store")]
    assert main(["run", "search-ranking", "--runner", "process", "--json", *dates]) == 64
    (said,) = json.loads(capsys.readouterr().out)
    assert "does not exist" in said["error"]["cause"]


def test_nights_prints_an_object_with_the_error_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["nights", "search-ranking", "--json", "--store", str(tmp_path)]) == 64
    said = json.loads(capsys.readouterr().out)
    assert said["error"]["code"] == 64
    assert said["error"]["cause"].startswith("no run of 'search-ranking'")
    assert said["error"]["remedy"] == "check --store and the name of the pipeline"
