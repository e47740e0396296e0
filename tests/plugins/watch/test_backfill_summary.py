"""The summary of a backfill."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pendulum
import pytest

from ratchet.contracts import paths
from ratchet.contracts.alerts import Alerts
from ratchet.contracts.request import Outcome
from ratchet.store.opening import open_store
from ratchet_airflow.alerts.alert import Alert
from ratchet_airflow.alerts.deduplication import AlertHistory, event_key, failure_key
from ratchet_airflow.alerts.delivery import send_once
from ratchet_airflow.alerts.situation import Situation
from ratchet_airflow.run_id import store_run_id
from ratchet_airflow.watch.airflow_runs import Backfill
from ratchet_airflow.watch.backfill_summary import summarise
from tests.plugins.watch.airflow_rows import run, task


def test_a_backfill_is_a_line_for_each_date(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    killed = run(task("train", "failed"), state="failed", ended=timedelta(1), day=10)
    refused = run(task("validate", "failed"), state="failed", ended=timedelta(1), day=11)
    fine = run(task("report", "success"), state="success", ended=timedelta(1), day=12)
    said = Outcome(stage="validate", state="failed", because="price: 40 % null, 1 % allowed")
    store.create(
        paths.outcome("search-ranking", store_run_id(refused.run_id), "validate"), said.model_dump_json().encode()
    )
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


def test_a_summary_that_a_release_sent_which_read_the_database_is_not_sent_again(tmp_path: Path) -> None:
    history, one = AlertHistory(str(tmp_path)), run(task("report", "success"), state="success", ended=timedelta(1))
    backfill = Backfill(number=3, dag_id="search-ranking", runs=(one,))
    where, key, _ = summarise(backfill, history.store, history)
    assert one.ended is not None
    in_database = datetime.fromtimestamp(one.ended.timestamp(), pendulum.UTC)  # as Airflow's models give it
    assert key == event_key(where, "backfill", (one.run_id, in_database))


def test_the_summary_has_the_cause_that_was_reported_for_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(tmp_path / "alerts.jsonl"))
    failed = run(task("train", "failed"), state="failed", ended=timedelta(1), day=10)
    where = Situation(pipeline="search-ranking", run_id=failed.run_id, stage="train")
    alert = Alert(
        occasion="failure", pipeline="search-ranking", stage="train", date="", run_id="", cause="out of memory"
    )
    history = AlertHistory(str(tmp_path))
    assert send_once(alert, where, failure_key(where), Alerts(to=()), history)
    backfill = Backfill(number=3, dag_id="search-ranking", runs=(failed,), left_out=0)
    _, _, summary = summarise(backfill, open_store(str(tmp_path)), history)
    assert summary.details == ("2026-11-10  failed: train: out of memory",)
