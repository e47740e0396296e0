"""The file's register.promote is the upper bound of every way to start a run: lower is allowed, higher is refused."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import ParamValidationError

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.loading import load
from ratchet.contracts.request import RunPlan
from ratchet.samples import clicks
from ratchet_airflow import form
from ratchet_airflow.plan_operator import PlanOperator
from ratchet_airflow.plans import find_plan
from tests.runs.nights import ratchet

PIPELINE = "search-ranking"
SOURCE = Path(__file__).resolve().parents[2] / "dags" / "pipelines" / PIPELINE
NOON = datetime(2026, 3, 21, 12, tzinfo=UTC)
RAISED = [("approve", "auto"), ("never", "auto"), ("never", "approve")]
LOWERED = [("auto", "never"), ("auto", "auto"), ("approve", "never"), ("approve", "approve"), ("never", "never")]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for _ in clicks.write(tmp_path / "data", days=3, rows_per_day=20, end=NOON.date(), seed=0):
        pass
    for name, value in {"DATA": str(tmp_path / "data"), "STORE": str(tmp_path / "store"), "RUNNER": "process"}.items():
        monkeypatch.setenv(f"RATCHET_{name}", value)
    return tmp_path


def folder(data: Path, promote: str) -> Path:
    made = data / promote / PIPELINE
    shutil.copytree(SOURCE, made)
    file = made / "pipeline.yaml"
    file.write_text(file.read_text().replace("promote: auto", f"promote: {promote}"))
    assert load(made).register_.promote == promote
    return made


def plan(made: Path, run_type: str = "manual", **conf: Any) -> str:
    """Plan a run in Airflow with this conf, which Airflow lays over the form; the promotion of its plan."""
    run = SimpleNamespace(
        run_type=run_type, run_after=NOON, data_interval_start=None, data_interval_end=None, partition_key=None,
        logical_date=None, triggering_user_name="eve",
    )  # fmt: skip
    params = {"date": "2026-03-21", "window_days": 3, **conf}
    run_id = f"{run_type}__{json.dumps(conf)}"
    PlanOperator(task_id="plan", folder=made, timezone="UTC").execute(
        {"params": params, "dag_run": run, "run_id": run_id}
    )
    return find_plan(PIPELINE, run_id).promotion.mode


@pytest.mark.parametrize("run_type", ["manual", "backfill"])
@pytest.mark.parametrize(("promote", "asked"), RAISED)
def test_a_conf_that_asks_for_more_is_refused_when_the_run_is_planned(
    data: Path, promote: str, asked: str, run_type: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"promote {asked}: register.promote of {PIPELINE} is {promote}"):
        plan(folder(data, promote), run_type, promote=asked)


@pytest.mark.parametrize("run_type", ["manual", "backfill"])
@pytest.mark.parametrize(("promote", "asked"), LOWERED)
def test_a_conf_that_asks_for_no_more_is_planned_as_it_asks(
    data: Path, promote: str, asked: str, run_type: str
) -> None:
    assert plan(folder(data, promote), run_type, promote=asked) == asked


def asked(made: Path, run_type: str = "backfill", **conf: Any) -> RunPlan:
    """The plan of a run that asks for `promote: latest` with this conf."""
    plan(made, run_type, promote="latest", **conf)
    return find_plan(PIPELINE, f"{run_type}__{json.dumps({'promote': 'latest', **conf})}")


@pytest.mark.parametrize("promote", ["auto", "approve"])
def test_of_a_backfill_that_asks_for_latest_only_the_newest_date_may_do_what_the_file_allows(
    data: Path, promote: str
) -> None:
    made = folder(data, promote)
    last = asked(made, latest="2026-03-21")
    assert (last.promotion.mode, last.latest, last.started_by) == (promote, True, "eve")
    earlier = asked(made, latest="2026-03-22")
    assert (earlier.promotion.mode, earlier.latest, bool(earlier.chain)) == ("never", False, True)


@pytest.mark.parametrize(
    ("promote", "run_type", "conf", "said"),
    [
        ("never", "backfill", {"latest": "2026-03-21"}, "register.promote is never, and a single run may not ask for"),
        ("auto", "manual", {"latest": "2026-03-21"}, "promote latest is for a backfill"),
        ("auto", "backfill", {}, "its newest date is not given"),
        ("auto", "backfill", {"latest": "2026-03-20"}, "2026-03-21 is after latest, 2026-03-20"),
        ("auto", "backfill", {"latest": "soon"}, "soon"),
    ],
)
def test_a_conf_that_asks_for_latest_has_to_be_a_backfill_with_its_newest_date(
    data: Path, promote: str, run_type: str, conf: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        asked(folder(data, promote), run_type, **conf)


def test_a_newest_date_without_latest_is_no_slip_that_passes(data: Path) -> None:
    with pytest.raises(ConfigurationError, match="latest is 2026-03-21, and promote is not latest"):
        plan(folder(data, "auto"), "backfill", promote="auto", latest="2026-03-21")


@pytest.mark.parametrize(("promote", "offered"), [("auto", True), ("approve", True), ("never", False)])
def test_the_form_offers_latest_only_where_the_file_lets_a_run_promote(data: Path, promote: str, offered: bool) -> None:
    modes = form.params(load(folder(data, promote)))["promote"].schema["enum"]
    assert ("latest" in modes) is offered


@pytest.mark.parametrize("promote", ["auto", "approve", "never"])
def test_a_conf_with_keys_that_are_not_in_the_form_changes_nothing(data: Path, promote: str) -> None:
    keys = {"register.promote": "auto", "register": {"promote": "auto"}, "promotion": "auto", "approvers": ["eve"]}
    made = folder(data, promote)
    assert plan(made, **keys) == promote
    assert plan(made, "backfill", **keys) == "never"


@pytest.mark.parametrize(("promote", "asked"), RAISED)
def test_the_form_does_not_offer_more_and_airflow_refuses_it(data: Path, promote: str, asked: str) -> None:
    param = form.params(load(folder(data, promote)))["promote"]
    with pytest.raises(ParamValidationError):
        param.resolve(asked)


@pytest.mark.parametrize(
    "flags", [("--promote", "auto"), ("--set", "register.promote=auto"), ("--set", "gate.min_gain=0%")]
)
@pytest.mark.parametrize("promote", ["approve", "never"])
def test_the_command_line_cannot_ask_for_more(data: Path, promote: str, flags: tuple[str, ...]) -> None:
    made = folder(data, promote)
    environment = {"RATCHET_DATA": str(data / "data")}
    where = ("--date", "2026-03-21", "--store", str(data / "store"), "--runner", "process")
    ended = ratchet("run", str(made), *where, *flags, environment=environment)
    assert ended.code == 64
    assert f"register.promote of {PIPELINE} is {promote}" in ended.err
