"""What a person changes of the gate for one run is in its plan, its requests and its ledger record, with the person."""

import getpass
import shutil
import socket
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ratchet.cli.main import main
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.loading import load
from ratchet.contracts.request import RunPlan
from ratchet.runs.planning import make_plan
from ratchet.runs.requests import compose
from ratchet.samples import clicks
from ratchet.store.ledger import champion
from ratchet.store.opening import open_store
from tests.runs.nights import DAY, ROOT, run, sample
from tests.runs.test_requests import OUTCOMES, plan

FOLDER = ROOT / "dags" / "pipelines" / "search-ranking"
WHO = f"{getpass.getuser()}@{socket.gethostname()}"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path))
    for _ in clicks.write(tmp_path, days=3, rows_per_day=20, end=DAY, seed=0):
        pass
    return tmp_path


def planned(data: Path, folder: Path = FOLDER, day: date = DAY, **overrides: Any) -> RunPlan:
    changed = {"source.window_days": 3, **{key.replace("__", "."): value for key, value in overrides.items()}}
    return make_plan(
        folder=folder,
        spec=load(folder, changed),
        data_date=day,
        run_id="r",
        kind="local",
        store_uri=str(data / "store"),
        overrides={key: str(value) for key, value in changed.items()},
        started_by="me@here",
    )


def pipeline(folder: Path, promote: str) -> Path:
    shutil.copytree(FOLDER, folder)
    file = folder / "pipeline.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("promote: auto", f"promote: {promote}"), encoding="utf-8")
    assert load(folder).register_.promote == promote
    return folder


def test_the_plan_and_every_request_say_what_was_changed_and_by_whom(data: Path) -> None:
    made = planned(data, gate__min_gain="0%")
    assert made.overrides == {"source.window_days": "3", "gate.min_gain": "0%"}
    assert made.started_by == "me@here"
    request = compose(open_store(made.store), made, "ingest", {}, "a")
    assert (request.overrides, request.started_by) == (made.overrides, "me@here")


@pytest.mark.parametrize("promote", ["approve", "never"])
@pytest.mark.parametrize("key", ["gate.confidence", "register.promote", "evaluate.slices"])
def test_a_pipeline_that_a_person_promotes_keeps_the_gate_of_its_file(data: Path, promote: str, key: str) -> None:
    folder = pipeline(data / "own", promote)
    value: Any = {"gate.confidence": "80%", "register.promote": "auto", "evaluate.slices": []}[key]
    with pytest.raises(ConfigurationError, match=rf"--set {key}: register\.promote of search-ranking is {promote}"):
        planned(data, folder, **{key: value})
    assert not (data / "store").exists()
    assert planned(data, folder).promotion.mode == "never"


@pytest.mark.parametrize("key", ["register.model", "name"])
def test_a_run_of_a_file_that_promotes_freely_is_not_for_the_production_of_another_one(data: Path, key: str) -> None:
    folder = pipeline(data / "own", "auto")
    with pytest.raises(ConfigurationError, match=rf"--set {key}: .* of search-ranking may not .* of payments-fraud"):
        planned(data, folder, **{key: "payments-fraud"})
    assert not (data / "store").exists()


def test_plan_refuses_it_as_a_run_does(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = pipeline(data / "own", "never")
    common = (str(folder), "--date", DAY.isoformat(), "--store", str(data / "store"), "--set", "gate.confidence=80%")
    assert main(["plan", *common, "--set", "source.window_days=3"]) == 64
    assert "a single run may not change its gate" in capsys.readouterr().err


def test_two_runs_that_differ_in_what_was_changed_do_not_share_a_report() -> None:
    store = open_store("mem://gate-overrides")
    given = [({}, ""), ({}, "me"), ({"gate.min_gain": "0%"}, "me"), ({"gate.min_gain": "0%"}, "you")]
    prints = {
        compose(store, made, "report", OUTCOMES, "a").fingerprint
        for made in (plan().model_copy(update={"overrides": changed, "started_by": who}) for changed, who in given)
    }
    assert len(prints) == 3


def test_a_promotion_by_another_gate_is_in_the_ledger_and_the_report_with_the_person(tmp_path: Path) -> None:
    data, store = sample(tmp_path / "data"), tmp_path / "store"
    ended = run("search-ranking", str(data), str(store), "--set", "gate.confidence=80%", "--promote", "auto")
    assert ended.code == 0, ended.err
    record = champion(open_store(str(store)), "search-ranking")
    assert record is not None
    assert record.started_by == WHO
    assert record.overrides["gate.confidence"] == "80%"
    assert record.gate is not None
    assert record.gate.confidence == 0.8
    page = Path(ended.json["report"]).read_text(encoding="utf-8")
    assert "gate.confidence=" in page
    assert WHO in page
