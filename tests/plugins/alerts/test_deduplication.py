"""Each event is reported once, even if several processes notice it."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet.contracts.errors import DataRejected, OutOfMemory, Preempted, Unavailable
from ratchet.contracts.outages import OnAnotherHost
from ratchet.contracts.stages import StageSettings
from ratchet.outbox.letter import Letter
from ratchet.outbox.outbox import Outbox
from ratchet.outbox.spool import Spool
from ratchet.store.opening import open_store
from ratchet_airflow.alerts import delivery
from ratchet_airflow.alerts.delivery import outbox_of, spool
from tests.plugins.alerts.callback_context import NIGHT, callbacks, context
from tests.waiting import until

DOWN = Unavailable("the database did not answer within 5 s")


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where sent alerts are recorded."""
    folder = tmp_path / "store"
    folder.mkdir()
    monkeypatch.setenv("RATCHET_STORE", str(folder))
    return folder


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The occasion and the try of each alert that was sent."""
    alerts: list[tuple[str, str]] = []

    def send(letter: Letter, _: str) -> bool:
        (attempt,) = [line.removeprefix("Try: ") for line in letter.body.splitlines() if line.startswith("Try: ")]
        alerts.append((letter.occasion, attempt))
        return True

    monkeypatch.setattr("ratchet_airflow.alerts.delivery.send", send)
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", "json://127.0.0.1:1")
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(tmp_path / "alerts.jsonl"))
    return alerts


def test_the_worker_the_dag_processor_and_the_dag_itself_report_a_failure_once(sent: list[tuple[str, str]]) -> None:
    callbacks().on_failure(context(DOWN, try_number=3))
    callbacks().on_failure(context(None, try_number=3))
    callbacks().on_run_failure({**context(None, try_number=3), "reason": "task_failure"})
    assert sent == [("failure", "3 of 3")]


def test_the_dag_itself_tells_of_a_task_that_was_killed(sent: list[tuple[str, str]]) -> None:
    callbacks().on_run_failure({**context(None, try_number=3), "reason": "task_failure"})
    assert sent == [("failure", "3 of 3")]


def test_of_many_that_notice_at_once_one_reports(sent: list[tuple[str, str]]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: callbacks().on_failure(context(DOWN, try_number=3)), range(16)))
    assert len(sent) == 1


def test_a_process_sends_its_letter_if_another_claims_the_event_meanwhile(
    sent: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Outbox.post

    def slower(outbox: Outbox, event: str, content: bytes, letters: Sequence[Letter]) -> bool:
        real(outbox, event, content, letters)
        return False

    monkeypatch.setattr(Outbox, "post", slower)
    callbacks().on_failure(context(DOWN, try_number=3))
    assert sent == [("failure", "3 of 3")]


def test_a_cause_that_comes_again_is_silent_until_the_stage_is_given_up(sent: list[tuple[str, str]]) -> None:
    callbacks().on_retry(context(DOWN))
    callbacks().on_start(context(None, try_number=2))
    callbacks().on_retry(context(Unavailable("the database did not answer within 7 s"), try_number=2))
    callbacks().on_start(context(None, try_number=3))
    callbacks().on_failure(context(DOWN, try_number=3))
    assert sent == [("retry", "1 of 3"), ("failure", "3 of 3")]


def test_another_cause_is_reported(sent: list[tuple[str, str]]) -> None:
    callbacks().on_retry(context(DOWN))
    callbacks().on_retry(context(OutOfMemory("train needed more than its 512 MiB"), try_number=2))
    assert sent == [("retry", "1 of 3"), ("retry", "2 of 3")]


def test_a_killed_try_is_reported_by_the_next_one(sent: list[tuple[str, str]]) -> None:
    callbacks().on_start(context(None, try_number=2))
    callbacks().on_retry(context(None, try_number=1))  # from the DAG processor, late
    callbacks().on_start(context(None, try_number=3))  # killed again: the same cause
    assert sent == [("retry", "1 of 3")]


class _Killed(BaseException):
    """Nothing of a process goes on after it, as after a kill."""


@pytest.mark.parametrize(
    ("name", "in_the_next_try"),
    [("send_once", False), ("AlertHistory.add", False), ("AlertHistory.add", True)],
    ids=["before the letters", "after the letters", "before the next try's own mark"],
)
def test_a_callback_that_is_killed_loses_no_alert(
    name: str, in_the_next_try: bool, sent: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise _Killed

    call, given = (callbacks().on_start, None) if in_the_next_try else (callbacks().on_retry, DOWN)
    with monkeypatch.context() as patch:
        patch.setattr(f"ratchet_airflow.alerts.callbacks.{name}", killed)
        with pytest.raises(_Killed):
            call(context(given, try_number=2 if in_the_next_try else 1))
    callbacks().on_start(context(None, try_number=2))
    assert sent == [("retry", "1 of 3")]
    callbacks().on_success(context(None, try_number=2))
    assert sent[1:] == [("recovered", "2 of 3")]


def test_a_try_that_waited_and_was_killed_then_is_reported_by_the_next(sent: list[tuple[str, str]]) -> None:
    callbacks().on_outage(context(DOWN, handling=StageSettings()), DOWN, "it waits")
    callbacks().on_start(context(None, try_number=2))
    assert sent == [("retry", "1 of 3")] * 2


def test_the_first_try_and_one_after_a_person_cleared_the_task_report_nothing(sent: list[tuple[str, str]]) -> None:
    callbacks().on_start(context(None))
    callbacks().on_start(context(None, try_number=2, max_tries=3))
    assert sent == []


def test_a_preempted_try_is_reported_neither_by_itself_nor_by_the_next(sent: list[tuple[str, str]]) -> None:
    callbacks().on_retry(context(Preempted("a notice to stop")))
    callbacks().on_start(context(None, try_number=2))
    callbacks().on_success(context(None, try_number=2))
    assert sent == []


def test_after_a_retry_alert_the_recovery_is_reported(sent: list[tuple[str, str]]) -> None:
    callbacks().on_retry(context(DOWN))
    callbacks().on_success(context(None, try_number=2))
    callbacks().on_success(context(None, try_number=2))
    assert sent == [("retry", "1 of 3"), ("recovered", "2 of 3")]


def test_a_stage_that_is_cleared_after_its_failure_recovers(sent: list[tuple[str, str]]) -> None:
    callbacks().on_failure(context(DOWN, try_number=3))
    callbacks().on_success(context(None, try_number=4, max_tries=5, started=NIGHT + timedelta(hours=6)))
    assert sent == [("failure", "3 of 3"), ("recovered", "4 of 6")]


def test_no_recovery_is_reported_without_an_alert_before_it(sent: list[tuple[str, str]]) -> None:
    callbacks(on=("failure", "recovered")).on_retry(context(DOWN))
    callbacks(on=("failure", "recovered")).on_success(context(None, try_number=2))
    assert sent == []


def test_another_stage_another_run_and_a_cleared_run_are_separate_events(sent: list[tuple[str, str]]) -> None:
    callbacks().on_failure(context(DOWN))
    callbacks().on_failure(context(DOWN, stage="train"))
    callbacks().on_failure(context(DOWN, run_id="r2"))
    callbacks().on_failure(context(DOWN, started=NIGHT + timedelta(hours=6)))
    assert len(sent) == 4


def test_without_a_store_the_alert_is_kept_and_sent_once_it_answers(
    sent: list[tuple[str, str]], store: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("RATCHET_STORE")
    for _ in range(2):
        callbacks().on_failure(context(DOWN, try_number=3))
    assert sent == []
    assert "cannot ask the store whether validate.failure." in caplog.text
    outbox = outbox_of(open_store(str(store)))
    assert spool().store_is_back(outbox) == 1
    assert outbox.deliver_due() == 1
    assert sent == [("failure", "3 of 3")]
    assert not spool().files()


def test_the_runs_of_a_backfill_are_logged_and_not_sent(
    sent: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(tmp_path / "alerts.jsonl"))
    callbacks().on_failure(context(DOWN, run_id="backfill__2026-11-20T00:00:00+00:00"))
    assert sent == []
    assert "the database did not answer" in (tmp_path / "alerts.jsonl").read_text()


@pytest.mark.parametrize(("retries", "error"), [(2, DOWN), (0, OnAnotherHost("gpu-2 has enough"))])
def test_the_letter_of_a_stage_that_waits_says_until_when_it_may(
    retries: int, error: Unavailable, store: Path, monkeypatch: pytest.MonkeyPatch, sent: list[tuple[str, str]]
) -> None:
    monkeypatch.setattr("ratchet_airflow.alerts.delivery.send", lambda *_: False)
    settings = StageSettings.model_validate({"timeout": "12h", "retries": retries})
    callbacks().on_outage(context(error, handling=settings), error, "it waits")
    ((letter, _),) = outbox_of(open_store(str(store))).waiting()
    assert letter.until is not None
    assert timedelta(hours=11, minutes=59) < letter.until - letter.made <= timedelta(hours=12)


def test_refused_data_counts_as_a_failure(sent: list[tuple[str, str]]) -> None:
    callbacks(on=("failure",)).on_failure(context(DataRejected("no rows")))
    assert sent == [("refused", "1 of 3")]


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Apprise's own import
def test_an_address_that_hangs_holds_up_no_other_one_while_neither_the_store_nor_the_disk_takes_an_alert(
    sent: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> bool:
        raise Unavailable("the store does not answer")

    def full(*_: object) -> bool:
        raise OSError("no space left on device")

    real, end = delivery.send, threading.Event()

    def hangs(letter: Letter, address: str) -> bool:
        return end.wait(30) if address.endswith(":1") else real(letter, address)

    monkeypatch.setattr(Outbox, "post", away)
    monkeypatch.setattr(Spool, "keep", full)
    monkeypatch.setattr(delivery, "send", hangs)
    monkeypatch.setattr(delivery, "CALLBACK_S", 0.2)
    monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", "json://127.0.0.1:1 json://127.0.0.1:2")
    callbacks().on_failure(context(DOWN, try_number=3))
    until(lambda: sent, seconds=30)
    end.set()
    assert sent == [("failure", "3 of 3")]
