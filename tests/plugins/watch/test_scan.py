"""One scan of the watch, over what Airflow's server says."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ratchet.contracts import paths
from ratchet.contracts.request import Outcome
from ratchet.runs.outcomes import outcome_of_stage
from ratchet.store.opening import open_store
from ratchet_airflow.watch.airflow_runs import Run, Task
from ratchet_airflow.watch.airflow_server import AirflowServer
from ratchet_airflow.watch.run_alerts import scan_run, worth_a_look
from ratchet_airflow.watch.scan import Scanner
from tests.plugins.watch import airflow_api
from tests.plugins.watch.airflow_rows import QUEUED, run, task
from tests.runs.recorded import keep_plan
from tests.runs.test_requests import DAY, plan

ROOT = Path(__file__).resolve().parents[3]


def test_the_watch_reports_each_once_with_or_without_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "alerts.jsonl"
    monkeypatch.setenv("RATCHET_STORE", str(tmp_path))
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(log))
    monkeypatch.setenv("RATCHET_ALERTS_MLOPS", "")
    stuck = replace(run(task("ingest", "running")), run_id="r1", file=str(ROOT / "dags" / "ratchet_pipelines.py"))
    failed = replace(stuck, run_id="r2", state="failed", ended=QUEUED, tasks=(task("ingest", "failed"),))
    later, asked = QUEUED + timedelta(hours=5), list[str]()

    def read(one: Run) -> tuple[Task, ...]:
        asked.append(one.run_id)
        return one.tasks

    assert scan_run(stuck, QUEUED + timedelta(minutes=20), read) == 0
    assert asked == []  # nothing that its tasks say would matter yet
    assert [scan_run(stuck, later, read), scan_run(failed, later, read)] == [2, 1]
    assert [scan_run(stuck, later, read), scan_run(failed, later, read)] == [0, 0]
    late, still, silent = map(json.loads, log.read_text().splitlines())
    assert late["title"] == "search-ranking 2026-11-20: run is late"
    assert late["cause"] == "the run is 1h past its limit of 4h (schedule.finish_by)"
    assert still["cause"] == "no task has changed its state since 2026-11-21 02:00 UTC; ingest is running"
    assert silent["title"] == "search-ranking 2026-11-20: ingest failed"
    assert silent["link"].endswith("/dags/search-ranking/runs/r2/tasks/ingest?try_number=1")


def test_a_run_that_failed_while_a_stage_waited_is_no_longer_shown_as_unfinished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "RATCHET_STORE": tmp_path, "RATCHET_ALERT_LOG": tmp_path / "alerts.jsonl", "RATCHET_INSTALLATION": "here",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, str(value))
    store, made = open_store(str(tmp_path)), plan(run_id="run-1.here", data_date=DAY, store=str(tmp_path))
    keep_plan(store, made)
    name, key = made.spec.name, paths.outcome(made.spec.name, "run-1.here", "train")
    store.create(key, Outcome(stage="train", state="failed", again=True).model_dump_json(by_alias=True).encode())
    ended = airflow_api.run(name, "run-1", "failed", datetime.now(UTC) - timedelta(hours=1))
    with airflow_api.AirflowApi(dags=[airflow_api.dag(name)], runs=[ended]).listening() as api:
        Scanner(AirflowServer(api.address)).scan()
    found = outcome_of_stage(store, name, "run-1.here", "train")
    assert found is not None
    assert not found.again


def test_of_green_runs_only_those_that_may_be_late_are_looked_at() -> None:
    usual = replace(run(state="success"), dag_id="limited", run_id="usual")
    free = replace(usual, dag_id="free", run_id="free")
    old = replace(usual, backfill=3, run_id="old")
    waits = replace(old, state="queued", run_id="waits")
    gone = replace(usual, dag_id="retired", run_id="gone")  # no file says that it has no limit
    failed, active = replace(old, state="failed", run_id="failed"), replace(old, state="running", run_id="active")
    found = worth_a_look([usual, free, old, waits, gone, failed, active], {"free"})
    assert [one.run_id for one in found] == ["active", "failed", "usual", "gone"]


def test_a_very_large_day_is_looked_at_in_parts_and_a_restart_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "alerts.jsonl"
    for name, value in {
        "RATCHET_STORE": tmp_path, "RATCHET_ALERT_LOG": log, "RATCHET_INSTALLATION": "here",
        "RATCHET_PIPELINES": ROOT / "dags" / "pipelines", "RATCHET_ALERTS_MLOPS": "",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, str(value))
    name, now, hour = "search-ranking", datetime.now(UTC), timedelta(hours=1)
    rows = [airflow_api.run(name, f"run-{number}", "failed", now - 2 * hour) for number in range(3)]
    rows.append(airflow_api.run(name, "now", "failed", now - timedelta(minutes=6)))

    def looked_at(server: AirflowServer) -> int:
        api.asked.clear()
        Scanner(server).scan(now)
        return sum("/dagRuns/" in asked and "~" not in asked for asked in api.asked)

    with airflow_api.AirflowApi(dags=[airflow_api.dag(name)], runs=rows).listening() as api:
        server = AirflowServer(api.address)
        with monkeypatch.context() as short:
            short.setattr("ratchet_airflow.watch.scan._RUNS_S", -1.0)
            assert looked_at(server) == 0
            assert not (tmp_path / "watch-looked").exists()  # the next look is at the whole day, too
        assert looked_at(server) == 4
        assert (tmp_path / "watch-looked").exists()
        assert looked_at(server) == 1  # another watch looks again at what has just ended
        os.utime(tmp_path / "watch-seen", (0, 0))
        assert looked_at(server) == 4
        rows[0]["end_date"] = now.isoformat()  # somebody has cleared it
        assert looked_at(server) == 2
