"""A night that never started is reported once, by what the pipeline's file says and not by any run."""

import json
import os
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from ratchet.contracts import paths
from ratchet.contracts.loading import load
from ratchet.store.base import Store
from ratchet.store.opening import open_store
from ratchet_airflow.watch.airflow_runs import AirflowDag
from ratchet_airflow.watch.airflow_server import AirflowServer
from ratchet_airflow.watch.missing_nights import (
    ReadDags,
    due_night,
    missing_night,
    scan_missing_nights,
    why_missing,
)
from ratchet_airflow.watch.scan import Scanner
from ratchet_airflow.watch.watched import watched
from tests.plugins.watch.airflow_api import AirflowApi
from tests.plugins.watch.airflow_rows import run, task
from tests.runs.recorded import keep_plan
from tests.runs.test_requests import DAY, SPEC, plan

TICK = datetime(DAY.year, DAY.month, DAY.day, 2, tzinfo=UTC) + timedelta(days=2)
"""Of the night after the one that is in the store."""
NIGHT = DAY + timedelta(days=1)
DUE = TICK + timedelta(minutes=31)
HERE = AirflowDag(dag_id="small")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the pipeline `small`, which runs at 02:00."""
    made = tmp_path / "pipelines" / "small"
    made.mkdir(parents=True)
    text = f"{SPEC}schedule: {{cron: 0 2 * * *}}\nalerts: {{to: [ml-ops]}}\n"
    (made / "pipeline.yaml").write_text(text)
    for name, value in {
        "RATCHET_PIPELINES": made.parent,
        "RATCHET_ALERT_LOG": tmp_path / "alerts.jsonl",
        "RATCHET_STORE": tmp_path / "store",
        "RATCHET_ALERTS_ML_OPS": "",
    }.items():
        monkeypatch.setenv(name, str(value))
    return made


@pytest.fixture
def store(folder: Path, tmp_path: Path) -> Store:
    """With one night of the pipeline."""
    made = open_store(str(tmp_path / "store"))
    made.prepare()
    spec = load(folder / "pipeline.yaml")
    keep_plan(made, plan(run_id="run-1", data_date=DAY, store=made.uri).model_copy(update={"spec": spec}))
    return made


def known(dags: Mapping[str, AirflowDag]) -> ReadDags:
    """What Airflow answers."""
    return lambda _: dags


def said(folder: Path) -> list[dict[str, str]]:
    log = folder.parents[1] / "alerts.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def test_a_night_without_a_run_is_reported_once_and_not_too_soon(store: Store, folder: Path) -> None:
    dags = {"small": HERE}
    assert scan_missing_nights(store, known(dags), [], TICK + timedelta(minutes=29)) == 0
    assert [scan_missing_nights(store, known(dags), [], DUE) for _ in range(2)] == [1, 0]
    (alert,) = said(folder)
    assert alert["title"] == f"small {NIGHT}: night has not started"
    assert alert["cause"].startswith("Airflow made no run of it")
    assert alert["remedy"] == f"check the scheduler; then trigger the DAG small in Airflow with the date {NIGHT}"


def test_nights_in_a_row_that_did_not_start_are_one_alert_with_their_dates(store: Store, folder: Path) -> None:
    os.utime(folder / "pipeline.yaml", (0, 0))
    second, third = NIGHT + timedelta(days=1), NIGHT + timedelta(days=2)
    late = DUE + timedelta(days=1)
    assert [scan_missing_nights(store, known({"small": HERE}), [], late) for _ in range(2)] == [1, 0]
    (alert,) = said(folder)
    assert alert["title"] == f"small {NIGHT} to {second}: night has not started"
    assert alert["remedy"].endswith(f"in Airflow with each of the dates {NIGHT}, {second}")
    started = {"small": AirflowDag(dag_id="small", started=frozenset({f"{third}"}))}
    assert scan_missing_nights(store, known(started), [], late + timedelta(days=1)) == 0  # both were reported


def test_a_night_that_was_left_out_before_one_that_started_is_reported_once(store: Store, folder: Path) -> None:
    os.utime(folder / "pipeline.yaml", (0, 0))
    keep_plan(store, plan(run_id="run-3", data_date=NIGHT + timedelta(days=1), store=store.uri))
    late = DUE + timedelta(days=1)
    assert [scan_missing_nights(store, known({"small": HERE}), [], late) for _ in range(2)] == [1, 0]
    (alert,) = said(folder)
    assert alert["title"] == f"small {NIGHT}: night has not started"
    assert alert["cause"].startswith("it has no run, and a later night has")
    (one,) = watched(store)
    assert missing_night(store, one, {}, [], late) is not None
    keep_plan(store, plan(run_id="run-2", data_date=NIGHT, store=store.uri))  # somebody has triggered it
    assert missing_night(store, one, {}, [], late) is None


def test_the_nights_of_a_pause_are_not_missing_when_it_has_ended(store: Store, folder: Path) -> None:
    os.utime(folder / "pipeline.yaml", (0, 0))
    pause = AirflowDag(dag_id="small", paused=True, paused_at=TICK)
    sent = [scan_missing_nights(store, known({"small": pause}), [], DUE + timedelta(days=night)) for night in range(3)]
    started = {"small": AirflowDag(dag_id="small", started=frozenset({f"{NIGHT + timedelta(days=3)}"}))}
    assert (sent, scan_missing_nights(store, known(started), [], DUE + timedelta(days=3))) == ([1, 0, 0], 0)


def test_a_night_that_started_is_not_missing_whoever_started_it(store: Store, folder: Path) -> None:
    started = {"small": AirflowDag(dag_id="small", started=frozenset({f"{NIGHT}"}))}
    assert scan_missing_nights(store, known(started), [], DUE) == 0
    keep_plan(store, plan(run_id="run-2", kind="local", data_date=NIGHT, store=store.uri))
    assert scan_missing_nights(store, known({}), [], DUE) == 0


def test_while_airflow_does_not_answer_the_store_says_what_is_missing(store: Store, folder: Path) -> None:
    assert [scan_missing_nights(store, None, [], DUE) for _ in range(2)] == [1, 0]
    (alert,) = said(folder)
    assert alert["cause"] == "Airflow's server does not answer, so no task can start"
    keep_plan(store, plan(run_id="run-2", data_date=NIGHT + timedelta(days=1), store=store.uri))
    assert scan_missing_nights(store, None, [], DUE + timedelta(days=1)) == 0


@pytest.mark.parametrize(("status", "seen"), [(403, "let ratchet-watch read /dags (403)"), (429, "answers 429 to GET")])
def test_where_airflow_answers_and_cannot_be_read_the_alert_says_what_was_seen(
    store: Store, folder: Path, status: int, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratchet_airflow.watch.scan._AWAY_S", -1)
    api = AirflowApi(statuses={"/api/v2/dags": status})
    with api.listening():
        assert Scanner(AirflowServer(api.address)).scan(DUE)
    (alert,) = [one for one in said(folder) if one.get("occasion") == "missing"]
    assert alert["cause"].startswith("it has no run in the store, and the watch cannot ask Airflow why: Airflow ")
    assert seen in alert["cause"]
    assert (
        f"if the night has not started then, trigger the DAG small in Airflow with the date {NIGHT}" in alert["remedy"]
    )


def test_a_pause_is_said_once_with_who_and_not_each_night(store: Store, folder: Path) -> None:
    pause = AirflowDag(dag_id="small", paused=True, paused_at=TICK, paused_by="Ada")
    sent = [scan_missing_nights(store, known({"small": pause}), [], DUE + timedelta(days=night)) for night in range(4)]
    assert sent == [1, 0, 0, 0]
    (alert,) = said(folder)
    assert alert["occasion"] == "paused"
    assert f"paused by Ada since {TICK:%Y-%m-%d %H:%M} UTC" in alert["cause"]
    again = AirflowDag(dag_id="small", paused=True, paused_at=TICK + timedelta(days=9))
    assert scan_missing_nights(store, known({"small": again}), [], DUE + timedelta(days=9)) == 1


@pytest.mark.parametrize("empty", [True, False])
def test_where_the_folder_of_all_pipelines_is_gone_those_that_ran_lately_are_missed(
    store: Store, folder: Path, tmp_path: Path, *, empty: bool
) -> None:
    old = load(folder / "pipeline.yaml").model_copy(update={"name": "given-up"})
    long_ago = plan(run_id="run-0", data_date=DAY - timedelta(days=100), store=store.uri)
    changes = {"spec": old, "created": long_ago.created - timedelta(days=100)}
    keep_plan(store, long_ago.model_copy(update=changes))
    for name in ("small", "damaged"):  # a record that cannot be read silences no other pipeline
        store.create(paths.plan(name, "run-2"), b'{"cut')
        store.create(paths.night(name, DAY, "run-2"), b"")
    folder.parent.rename(tmp_path / "unmounted")
    if empty:
        folder.parent.mkdir()
    assert [scan_missing_nights(store, known({}), [], DUE) for _ in range(2)] == [1, 0]
    (alert,) = said(folder)
    assert alert["title"] == f"small {NIGHT}: night has not started"
    assert f"{folder.parent} {'has no pipeline' if empty else 'is not there'}" in alert["cause"]
    assert "mount its disk" in alert["remedy"]


def test_a_broken_file_is_reported_to_those_whom_the_last_plan_names(store: Store, folder: Path) -> None:
    file = folder / "pipeline.yaml"
    file.write_text(file.read_text().replace("train:", "trian:"))
    assert [scan_missing_nights(store, known({"small": HERE}), [], DUE) for _ in range(2)] == [1, 0]
    (alert,) = said(folder)
    assert "its file is not valid" in alert["cause"]
    assert "train: is missing" in alert["cause"]


def test_a_pipeline_that_was_written_after_its_tick_misses_no_night(folder: Path, tmp_path: Path) -> None:
    empty = open_store(str(tmp_path / "empty"))
    empty.prepare()
    os.utime(folder / "pipeline.yaml", (DUE.timestamp(),) * 2)
    assert scan_missing_nights(empty, known({"small": HERE}), [], DUE) == 0
    keep_plan(empty, plan(run_id="run-1", data_date=NIGHT + timedelta(days=1), store=empty.uri))
    assert scan_missing_nights(empty, known({"small": HERE}), [], DUE) == 0  # its first run came at once
    os.utime(folder / "pipeline.yaml", (TICK.timestamp() - 1,) * 2)
    assert scan_missing_nights(empty, known({"small": HERE}), [], DUE) == 1


def test_the_reason_is_the_one_that_a_person_can_remove(folder: Path) -> None:
    spec = load(folder / "pipeline.yaml").model_copy(update={"name": "search-ranking"})
    before, own = run(task("train", "running"), day=20), run(day=21, state="queued")
    day = date(2026, 11, 21)
    assert "the run of 2026-11-20 has not ended" in why_missing(spec, day, None, HERE, [before, own]).cause
    assert why_missing(spec, day, None, HERE, [own]).cause == "its run waits, and no task has started"
    for gone in (None, AirflowDag(dag_id="x", stale=True), AirflowDag(dag_id="x", import_errors=True)):
        assert "Airflow has no DAG of it" in why_missing(spec, day, None, gone, []).cause


def test_without_a_schedule_no_night_is_due_and_the_days_are_those_of_the_time_zone(folder: Path) -> None:
    spec = load(folder / "pipeline.yaml")
    assert due_night(spec.model_copy(update={"schedule": None}), DUE) is None
    assert due_night(spec, DUE) == NIGHT
    assert spec.schedule is not None
    tokyo = spec.schedule.model_copy(update={"timezone": "Asia/Tokyo"})  # there it is 11:31, and 02:00 was long ago
    assert due_night(spec.model_copy(update={"schedule": tokyo}), DUE) == NIGHT
    assert due_night(spec.model_copy(update={"schedule": tokyo}), DUE + timedelta(hours=15)) == NIGHT + timedelta(
        days=1
    )
