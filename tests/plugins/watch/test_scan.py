"""Runs that are late or stuck, and the summary of a backfill, from the rows of Airflow's database."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ratchet.contracts import paths
from ratchet.contracts.loading import load
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import Outcome
from ratchet.store.opening import open_store
from ratchet_airflow.alerts.alert import Alert
from ratchet_airflow.alerts.deduplication import AlertHistory, failure_key
from ratchet_airflow.alerts.situation import Situation
from ratchet_airflow.watch.airflow_runs import Backfill, Run, Task
from ratchet_airflow.watch.backfill_summary import summarise
from ratchet_airflow.watch.lateness import late_by, stuck_since
from ratchet_airflow.watch.scan import scan_run

QUEUED = datetime(2026, 11, 21, 2, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def spec() -> PipelineSpec:
    """finish_by is 4 h; train may take 4 h, every other stage 1 h."""
    return load(ROOT / "dags" / "pipelines" / "search-ranking")


def task(name: str, state: str | None, changed: timedelta | None = timedelta(0)) -> Task:
    return Task(
        task_id=name, state=state, try_number=1, max_tries=2, changed=None if changed is None else QUEUED + changed
    )


def run(*tasks: Task, state: str = "running", ended: timedelta | None = None, day: int = 20) -> Run:
    return Run(
        dag_id="search-ranking",
        file="",
        run_id=f"backfill__2026-11-{day}",
        state=state,
        partition=f"2026-11-{day}",
        queued=QUEUED,
        started=QUEUED,
        ended=None if ended is None else QUEUED + ended,
        backfill=None,
        tasks=tasks,
    )


def test_a_run_is_late_when_finish_by_has_passed_whether_it_goes_on_or_ended_since(spec: PipelineSpec) -> None:
    hours = timedelta(hours=1)
    assert late_by(run(), spec, QUEUED + 3.9 * hours) is None
    assert late_by(run(), spec, QUEUED + 5 * hours) == hours
    assert late_by(run(state="queued"), spec, QUEUED + 5 * hours) == hours
    assert late_by(run(state="success", ended=4.5 * hours), spec, QUEUED + 5 * hours) == 0.5 * hours
    assert late_by(run(state="failed", ended=0.5 * hours), spec, QUEUED + 5 * hours) is None
    assert late_by(replace(run(), backfill=7), spec, QUEUED + 5 * hours) is None


def test_a_run_is_stuck_when_no_task_changed_for_far_longer_than_its_tasks_may_take(spec: PipelineSpec) -> None:
    done, waiting = task("plan", "success", timedelta(minutes=1)), task("train", None, None)
    ingest = task("ingest", "running", timedelta(minutes=2))
    hours = timedelta(hours=1)
    assert stuck_since(run(done, ingest, waiting), spec, QUEUED + 2.4 * hours) is None
    assert stuck_since(run(done, ingest, waiting), spec, QUEUED + 3 * hours) == QUEUED + timedelta(minutes=2)
    training = task("train", "running", timedelta(minutes=3))
    assert stuck_since(run(done, training), spec, QUEUED + 8 * hours) is None
    assert stuck_since(run(done, training), spec, QUEUED + 9 * hours) is not None


@pytest.mark.parametrize("state", ["awaiting_input", "success"])
def test_once_a_person_was_asked_a_run_is_not_late(spec: PipelineSpec, state: str) -> None:
    later = QUEUED + timedelta(hours=5)
    assert late_by(run(task("evaluate", "success"), task("approve", state)), spec, later) is None
    assert late_by(run(task("evaluate", "running"), task("approve", None)), spec, later) == timedelta(hours=1)


def test_a_task_that_waits_in_a_queue_for_ever_is_stuck_and_a_person_never_is(spec: PipelineSpec) -> None:
    later = QUEUED + timedelta(hours=9)
    assert stuck_since(run(task("features", "scheduled", None)), spec, later) == QUEUED
    assert stuck_since(run(task("approve", "awaiting_input")), spec, later) is None
    assert stuck_since(run(task("plan", "success")), spec, later) is None


def test_the_watch_reports_each_once_with_or_without_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "alerts.jsonl"
    monkeypatch.setenv("RATCHET_STORE", str(tmp_path))
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(log))
    monkeypatch.setenv("RATCHET_ALERTS_MLOPS", "")
    stuck = replace(run(task("ingest", "running")), run_id="r1", file=str(ROOT / "dags" / "ratchet_pipelines.py"))
    failed = replace(stuck, run_id="r2", state="failed", ended=QUEUED, tasks=(task("ingest", "failed"),))
    later = QUEUED + timedelta(hours=5)
    assert [scan_run(stuck, later), scan_run(failed, later)] == [2, 1]
    assert [scan_run(stuck, later), scan_run(failed, later)] == [0, 0]
    late, still, silent = map(json.loads, log.read_text().splitlines())
    assert late["title"] == "search-ranking 2026-11-20: run is late"
    assert late["cause"] == "the run is 1h past its limit of 4h (schedule.finish_by)"
    assert still["cause"] == "no task has changed its state since 2026-11-21 02:00 UTC; ingest is running"
    assert silent["title"] == "search-ranking 2026-11-20: ingest failed"
    assert silent["link"].endswith("/dags/search-ranking/runs/r2/tasks/ingest?try_number=1")


def test_a_backfill_is_a_line_for_each_date(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    killed = run(task("train", "failed"), state="failed", ended=timedelta(1), day=10)
    refused = run(task("validate", "failed"), state="failed", ended=timedelta(1), day=11)
    fine = run(task("report", "success"), state="success", ended=timedelta(1), day=12)
    said = Outcome(stage="validate", state="failed", because="price: 40 % null, 1 % allowed")
    store.create(paths.outcome("search-ranking", refused.run_id, "validate"), said.model_dump_json().encode())
    backfill = Backfill(number=3, dag_id="search-ranking", runs=(killed, refused, fine), left_out=2)
    _, name, alert = summarise(backfill, store, AlertHistory(str(tmp_path)))
    assert alert.title == "search-ranking 2026-11-10 to 2026-11-12: backfill has finished"
    assert alert.cause == "3 dates: 1 done, 2 failed"
    assert alert.details[0].startswith("2026-11-10  failed: train: the process ended without reporting a cause")
    assert alert.details[1:] == (
        "2026-11-11  failed: validate: price: 40 % null, 1 % allowed",
        "2026-11-12  done",
        "2 more already had a run and were skipped",
    )
    again = replace(backfill, runs=(killed, refused, replace(fine, ended=fine.queued + timedelta(2))))
    assert summarise(backfill, store, AlertHistory(str(tmp_path)))[1] == name
    assert summarise(again, store, AlertHistory(str(tmp_path)))[1] != name


def test_the_summary_has_the_cause_that_was_reported_for_a_task(tmp_path: Path) -> None:
    failed = run(task("train", "failed"), state="failed", ended=timedelta(1), day=10)
    where = Situation(pipeline="search-ranking", run_id=failed.run_id, stage="train")
    alert = Alert(
        occasion="failure", pipeline="search-ranking", stage="train", date="", run_id="", cause="out of memory"
    )
    history = AlertHistory(str(tmp_path))
    assert history.add(where, failure_key(where), alert)
    backfill = Backfill(number=3, dag_id="search-ranking", runs=(failed,), left_out=0)
    _, _, summary = summarise(backfill, open_store(str(tmp_path)), history)
    assert summary.details == ("2026-11-10  failed: train: out of memory",)
