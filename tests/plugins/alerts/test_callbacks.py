"""Alerts, delivered to a real server."""

import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ratchet.contracts.alerts import Alerts
from ratchet.contracts.errors import DataRejected, Preempted, RatchetError, Unavailable
from ratchet_airflow.alerts.alert import Alert
from ratchet_airflow.alerts.deduplication import AlertHistory
from ratchet_airflow.alerts.delivery import send_once
from ratchet_airflow.alerts.situation import Situation
from tests.plugins.alerts.callback_context import LINK, RUN_LINK, callbacks, context
from tests.plugins.alerts.mail import Mailbox
from tests.plugins.webhook import Webhook

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Apprise's own import


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where sent alerts are recorded."""
    folder = tmp_path / "store"
    folder.mkdir()
    monkeypatch.setenv("RATCHET_STORE", str(folder))
    return folder


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


def test_a_failure_says_what_where_why_and_what_to_do(
    hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
    error = DataRejected("price: 40 % null, 1 % allowed", remedy="mend the source")
    error.last_lines = ("checked 12 rules", "refused")
    callbacks().on_failure(context(error))
    (received,) = hook.received
    assert received["title"] == "search-ranking 2026-11-20: validate refused the data"
    assert received["message"].splitlines() == [
        "Pipeline: search-ranking",
        "Stage: validate",
        "Date: 2026-11-20",
        "Try: 1 of 3",
        "Cause: price: 40 % null, 1 % allowed",
        "Decision: no retry, because the data was rejected: read the validation page; "
        "correct the source, or the rule that is named",
        "Last log lines: ",
        "  checked 12 rules",
        "  refused",
        "What to do: mend the source",
        f"Log: {LINK}",
        f"Run: {RUN_LINK}",
    ]
    assert received["type"] == "failure"


def test_an_alert_arrives_as_mail(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Mailbox().listening() as box:
        monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", box.url)
        callbacks().on_failure(context(RatchetError("train ended with signal 11", remedy="read the log"), try_number=3))
        (mail,) = box.received
    assert mail["To"] == "mlops@example.org"
    assert mail["Subject"] == "search-ranking 2026-11-20: validate failed"
    body = mail.get_body(("plain", "html"))
    assert body is not None
    assert "Cause: train ended with signal 11" in body.get_content()
    assert "Try: 3 of 3" in body.get_content()


def test_only_the_last_ten_lines_of_a_log_are_shown(hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
    error = RatchetError("no")
    error.last_lines = [f"line {number}" for number in range(100)]  # type: ignore[attr-defined] # as above
    callbacks().on_failure(context(error))
    assert [line for line in hook.received[0]["message"].splitlines() if "line " in line and line.startswith("  ")] == [
        f"  line {number}" for number in range(90, 100)
    ]


def test_no_alert_holds_a_password(hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
    error = Unavailable("postgresql://reader:sesame-canary@db/clicks?x=1 does not answer", remedy="token=sesame-canary")
    error.last_lines = ["AWS_SECRET_ACCESS_KEY=sesame-canary"]  # type: ignore[attr-defined] # as above
    callbacks().on_failure(context(error))
    assert "postgresql://reader:***@db/clicks?x=1 does not answer" in hook.received[0]["message"]
    stored = "".join(file.read_text() for file in log.parent.rglob("*") if file.is_file())
    assert "postgresql" in stored
    assert "sesame-canary" not in json.dumps(hook.received) + stored


def test_every_alert_is_a_json_line_and_a_log_record(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "ratchet.alerts"):
        callbacks(to=()).on_failure(context(DataRejected("no rows")))
    (line,) = log.read_text().splitlines()
    assert json.loads(line)["cause"] == "no rows"
    assert "search-ranking 2026-11-20: validate refused the data: no rows" in caplog.text


def test_several_addresses_all_get_it(hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Webhook().listening() as second:
        monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", f"{hook.url} {second.url}")
        callbacks().on_retry(context(Unavailable("the store does not answer")))
        assert len(hook.received) == len(second.received) == 1


def test_only_what_the_file_asks_for_is_sent(hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
    callbacks(on=("failure",)).on_retry(context(Unavailable("the store does not answer")))
    assert hook.received == []
    assert len(log.read_text().splitlines()) == 1


def test_a_preempted_stage_alerts_nobody(hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
    callbacks().on_retry(context(Preempted("a notice to stop")))
    assert hook.received == []
    assert not log.exists()


def test_a_rejected_candidate_comes_with_the_reason(hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
    callbacks().on_skip(context(None, why_skipped="reject: 0.2 % worse"))
    assert "Cause: reject: 0.2 % worse" in hook.received[0]["message"]
    assert hook.received[0]["type"] == "info"


def test_a_question_says_where_and_until_when_to_answer(
    hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
    asked = context(None, stage="approve")
    who = "ada, ben; until 2026-11-22 02:00 UTC, then the answer is no"
    for given in (0, 0, 1):  # the same question is one alert, that to a second person another
        callbacks().on_question(asked, cause="ndcg@10 is better", who=who, given=given, page="http://here/verdict")
    received, _ = hook.received
    assert received["title"] == "search-ranking 2026-11-20: approve waits for approval"
    assert "Cause: ndcg@10 is better" in received["message"]
    there = f"{RUN_LINK}/tasks/approve/required_actions"
    assert f"approve or reject at {there}: {who}" in received["message"]
    assert "Report: http://here/verdict" in received["message"]


def test_a_promotion_is_reported_where_the_file_asks_for_it(
    hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
    made = {"model": "search-ranking", "version": "7", "mlflow_run_id": "x", "promoted": True}
    callbacks(on=("promoted",)).on_registration(
        context(None, result=SimpleNamespace(stage="register", attempt="a", summary=made))
    )
    callbacks(on=("promoted",)).on_registration(
        context(
            None,
            result=SimpleNamespace(
                stage="register", attempt="a", summary={**made, "promoted": False, "withheld": "a backfill"}
            ),
        )
    )
    (received,) = hook.received
    assert "search-ranking version 7 is in production" in received["message"]


def test_people_are_told_that_a_refit_was_promoted(hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
    made = {"model": "ranker", "version": "7", "mlflow_run_id": "x", "promoted": True, "refit_of": "a" * 64}
    callbacks(on=("promoted",)).on_registration(
        context(None, result=SimpleNamespace(stage="register", attempt="a", summary=made))
    )
    (received,) = hook.received
    assert "ranker version 7, a refit of the measured model aaaaaaaaaaaa, is in production" in received["message"]


def test_a_run_that_took_too_long_is_one_alert_about_the_whole_run(
    hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
    callbacks().on_run_failure({"reason": "timed_out", "run_id": "r1"})
    callbacks().on_run_failure({"reason": "timed_out", "run_id": "r1"})
    callbacks().on_run_failure({"reason": "task_failure", "run_id": "r1"})
    (received,) = hook.received
    assert "the run exceeded its time limit" in received["message"]


@pytest.mark.parametrize("status", [500, 404])
def test_a_server_that_refuses_fails_nothing(
    hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    hook.status = status
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", f"{hook.url}?key=sesame-canary")
    with caplog.at_level(logging.DEBUG):
        callbacks().on_failure(context(DataRejected("no rows")))
    assert "the alert did not reach every address" in caplog.text
    assert "sesame-canary" not in caplog.text


def test_a_server_that_is_gone_fails_nothing(
    log: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", f"json://127.0.0.1:{free.getsockname()[1]}")
        callbacks().on_failure(context(DataRejected("no rows")))
    assert "the alert did not reach every address" in caplog.text


def test_a_name_without_an_address_is_in_the_log(
    log: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", "")
    callbacks().on_failure(context(DataRejected("no rows")))
    assert "set RATCHET_ALERTS_ML_OPS, or create the Airflow connection ratchet_alerts_ml-ops" in caplog.text


def test_a_log_that_cannot_be_written_stops_no_delivery(
    hook: Webhook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(tmp_path / "no" / "such" / "folder"))
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
    callbacks().on_failure(context(DataRejected("no rows")))
    assert len(hook.received) == 1


def test_a_cause_that_is_not_text_is_sent_all_the_same(
    hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
    error = Unavailable("orders/caf\udce9.csv: does not answer", remedy="look at caf\udce9.csv")
    error.last_lines = ("reads caf\udce9.csv",)  # type: ignore[attr-defined] # as above
    callbacks().on_failure(context(error))
    (received,) = hook.received
    assert received["message"].count("caf?.csv") == 3
    assert "caf?.csv" in log.read_text()


def test_an_alert_that_no_file_can_hold_is_in_the_log(
    hook: Webhook, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
    monkeypatch.delenv("RATCHET_STORE")
    alert = Alert(occasion="failure", pipeline="p", stage="train", date="", run_id="r", cause="caf\udce9")
    where = Situation(pipeline="p", run_id="r")
    assert send_once(alert, where, "k", Alerts(to=("ml-ops",)), AlertHistory())
    assert len(log.read_text().splitlines()) == 1


def test_a_callback_without_a_context_fails_nothing(log: Path) -> None:
    callbacks(to=()).on_failure({})
    assert json.loads(log.read_text())["cause"].startswith("the process ended without reporting a cause")


def registered(*, promoted: bool, withheld: str = "", may_promote: bool = True) -> dict[str, Any]:
    """The task `register` as it is after its end."""
    summary = {"model": "m", "version": "3", "mlflow_run_id": "r", "promoted": promoted, "withheld": withheld}
    return {"result": SimpleNamespace(stage="register", attempt="a", summary=summary), "may_promote": may_promote}


def titles(log: Path) -> list[str]:
    return [json.loads(line)["title"] for line in log.read_text().splitlines()] if log.is_file() else []


def test_a_better_candidate_that_was_withheld_is_reported_with_the_reason(log: Path) -> None:
    held = "promotions of m are held by ada"
    given = context(None, stage="register", **registered(promoted=False, withheld=held))
    for _ in range(2):
        callbacks().on_registration(given)
    assert titles(log) == ["search-ranking 2026-11-20: register withheld a better candidate"]
    assert json.loads(log.read_text())["cause"] == f"m version 3 is better and not in production: {held}"


def test_a_run_that_was_not_to_promote_withholds_nothing(log: Path) -> None:
    task = registered(promoted=False, withheld="a backfill does not move production", may_promote=False)
    callbacks().on_registration(context(None, stage="register", **task))
    assert titles(log) == []
