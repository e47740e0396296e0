"""Alerts, delivered to a real server."""

import json
import logging
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ratchet_airflow.alerts import AlertCallbacks
from tasks.contracts.errors import DataRejected, Preempted, Unavailable
from tasks.contracts.operations import Alerts
from tests.plugins.webhook import Webhook

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Apprise's own import

LINK = "http://127.0.0.1:8080/dags/search-ranking/runs/r1/tasks/validate?try_number=1"


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with Webhook().listening() as listening:
        yield listening


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of JSON lines."""
    file = tmp_path / "alerts.jsonl"
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(file))
    return file


def callbacks(
    on: tuple[str, ...] = ("failure", "retry", "rejected"), to: tuple[str, ...] = ("ml-ops",)
) -> AlertCallbacks:
    return AlertCallbacks(pipeline="search-ranking", timezone="UTC", alerts=Alerts.model_validate({"to": to, "on": on}))


def context(error: BaseException | None, **task: Any) -> dict[str, Any]:
    """What Airflow gives a callback of the first of three tries."""
    run = SimpleNamespace(
        run_after=datetime(2026, 11, 21, 2, tzinfo=UTC),
        partition_key="2026-11-20",
        logical_date=None,
        data_interval_start=None,
        data_interval_end=None,
    )
    instance = SimpleNamespace(
        task_id="validate", try_number=1, max_tries=2, log_url=LINK, task=SimpleNamespace(**task)
    )
    return {"exception": error, "ti": instance, "dag_run": run, "params": {"date": None}, "run_id": "r1"}


def test_a_failure_says_what_where_why_and_what_to_do(
    hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
    callbacks().failure(context(DataRejected("price: 40 % null, 1 % allowed", remedy="mend the source")))
    (received,) = hook.received
    assert received["title"] == "search-ranking 2026-11-20: validate failed"
    assert received["message"].splitlines() == [
        "Pipeline: search-ranking",
        "Stage: validate",
        "Date: 2026-11-20",
        "Try: 1 of 3",
        "Cause: price: 40 % null, 1 % allowed",
        "What to do: mend the source",
        f"Link: {LINK}",
    ]
    assert received["type"] == "failure"


def test_every_alert_is_a_json_line_and_a_log_record(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "ratchet.alerts"):
        callbacks(to=()).failure(context(DataRejected("no rows")))
    (line,) = log.read_text().splitlines()
    assert json.loads(line)["cause"] == "no rows"
    assert "search-ranking 2026-11-20: validate failed: no rows" in caplog.text


def test_several_addresses_all_get_it(hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Webhook().listening() as second:
        monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", f"{hook.url} {second.url}")
        callbacks().retry(context(Unavailable("the store does not answer")))
        assert len(hook.received) == len(second.received) == 1


def test_only_what_the_file_asks_for_is_sent(hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
    callbacks(on=("failure",)).retry(context(Unavailable("the store does not answer")))
    assert hook.received == []
    assert len(log.read_text().splitlines()) == 1


def test_a_preempted_stage_alerts_nobody(hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
    callbacks().retry(context(Preempted("told to stop")))
    assert hook.received == []
    assert not log.exists()


def test_a_rejected_candidate_comes_with_the_reason(hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
    callbacks().skipped(context(None, why_skipped="reject: 0.2 % worse"))
    assert "Cause: reject: 0.2 % worse" in hook.received[0]["message"]
    assert hook.received[0]["type"] == "info"


def test_a_promotion_is_told_to_who_asked(hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
    made = {"model": "search-ranking", "version": "7", "mlflow_run_id": "x", "promoted": True}
    callbacks(on=("promoted",)).registered(context(None, result=SimpleNamespace(summary=made)))
    callbacks(on=("promoted",)).registered(
        context(None, result=SimpleNamespace(summary={**made, "promoted": False, "withheld": "a backfill"}))
    )
    (received,) = hook.received
    assert "search-ranking version 7" in received["message"]


def test_a_run_that_took_too_long_is_told_once_for_the_whole_run(
    hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
    callbacks().run_timed_out({"reason": "timed_out", "run_id": "r1"})
    callbacks().run_timed_out({"reason": "task_failure", "run_id": "r1"})
    (received,) = hook.received
    assert "the run took longer than it may" in received["message"]


@pytest.mark.parametrize("status", [500, 404])
def test_a_server_that_refuses_fails_nothing(
    hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    hook.status = status
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", f"{hook.url}?key=s3cret-canary")
    callbacks().failure(context(DataRejected("no rows")))
    assert "not every address took the alert" in caplog.text
    assert "s3cret-canary" not in caplog.text


def test_a_server_that_is_gone_fails_nothing(
    log: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", f"json://127.0.0.1:{free.getsockname()[1]}")
        callbacks().failure(context(DataRejected("no rows")))
    assert "not every address took the alert" in caplog.text


def test_a_name_without_an_address_is_said_in_the_log(
    log: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", "")
    callbacks().failure(context(DataRejected("no rows")))
    assert "set RATCHET_ALERTS_ML_OPS, or make the Airflow connection ratchet_alerts_ml-ops" in caplog.text


def test_a_log_that_cannot_be_written_stops_no_delivery(
    hook: Webhook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(tmp_path / "no" / "such" / "folder"))
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
    callbacks().failure(context(DataRejected("no rows")))
    assert len(hook.received) == 1


def test_a_callback_with_nothing_to_say_still_fails_nothing(log: Path) -> None:
    callbacks(to=()).failure({})
    assert json.loads(log.read_text())["cause"] == "Airflow did not say"
