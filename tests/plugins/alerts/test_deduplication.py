"""Each event is told once, whoever notices it."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet.contracts.errors import DataRejected, OutOfMemory, Preempted, Unavailable
from tests.plugins.alerts.callback_context import NIGHT, callbacks, context

DOWN = Unavailable("the database did not answer within 5 s")


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where it is kept what was told."""
    folder = tmp_path / "store"
    folder.mkdir()
    monkeypatch.setenv("RATCHET_STORE", str(folder))
    return folder


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The occasion and the try of each alert that was sent."""
    sent: list[tuple[str, str]] = []
    monkeypatch.setattr(
        "ratchet_airflow.alerts.delivery.deliver", lambda alert, _: sent.append((alert.occasion, alert.attempt))
    )
    return sent


def test_the_worker_the_dag_processor_and_the_dag_itself_tell_of_a_failure_once(told: list[tuple[str, str]]) -> None:
    callbacks().failure(context(DOWN, try_number=3))
    callbacks().failure(context(None, try_number=3))
    callbacks().run_failed({**context(None, try_number=3), "reason": "task_failure"})
    assert told == [("failure", "3 of 3")]


def test_the_dag_itself_tells_of_a_task_that_was_killed(told: list[tuple[str, str]]) -> None:
    callbacks().run_failed({**context(None, try_number=3), "reason": "task_failure"})
    assert told == [("failure", "3 of 3")]


def test_of_many_who_notice_at_once_one_tells(told: list[tuple[str, str]]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: callbacks().failure(context(DOWN, try_number=3)), range(16)))
    assert len(told) == 1


def test_a_cause_that_comes_again_is_silent_until_the_stage_is_given_up(told: list[tuple[str, str]]) -> None:
    callbacks().retry(context(DOWN))
    callbacks().started(context(None, try_number=2))
    callbacks().retry(context(Unavailable("the database did not answer within 7 s"), try_number=2))
    callbacks().started(context(None, try_number=3))
    callbacks().failure(context(DOWN, try_number=3))
    assert told == [("retry", "1 of 3"), ("failure", "3 of 3")]


def test_another_cause_is_told(told: list[tuple[str, str]]) -> None:
    callbacks().retry(context(DOWN))
    callbacks().retry(context(OutOfMemory("train needed more than its 512 MiB"), try_number=2))
    assert told == [("retry", "1 of 3"), ("retry", "2 of 3")]


def test_a_try_that_was_killed_is_told_by_the_next_one(told: list[tuple[str, str]]) -> None:
    callbacks().started(context(None, try_number=2))
    callbacks().retry(context(None, try_number=1))  # from the DAG processor, late
    callbacks().started(context(None, try_number=3))  # killed again: the same cause
    assert told == [("retry", "1 of 3")]


def test_the_first_try_and_one_after_a_person_cleared_the_task_say_nothing(told: list[tuple[str, str]]) -> None:
    callbacks().started(context(None))
    callbacks().started(context(None, try_number=2, max_tries=3))
    assert told == []


def test_a_preempted_try_is_neither_told_by_itself_nor_by_the_next(told: list[tuple[str, str]]) -> None:
    callbacks().retry(context(Preempted("told to stop")))
    callbacks().started(context(None, try_number=2))
    callbacks().succeeded(context(None, try_number=2))
    assert told == []


def test_whoever_heard_of_a_retry_hears_of_the_recovery(told: list[tuple[str, str]]) -> None:
    callbacks().retry(context(DOWN))
    callbacks().succeeded(context(None, try_number=2))
    callbacks().succeeded(context(None, try_number=2))
    assert told == [("retry", "1 of 3"), ("recovered", "2 of 3")]


def test_a_stage_that_is_cleared_after_its_failure_recovers(told: list[tuple[str, str]]) -> None:
    callbacks().failure(context(DOWN, try_number=3))
    callbacks().succeeded(context(None, try_number=4, max_tries=5, started=NIGHT + timedelta(hours=6)))
    assert told == [("failure", "3 of 3"), ("recovered", "4 of 6")]


def test_nobody_hears_of_a_recovery_who_did_not_hear_of_the_trouble(told: list[tuple[str, str]]) -> None:
    callbacks(on=("failure", "recovered")).retry(context(DOWN))
    callbacks(on=("failure", "recovered")).succeeded(context(None, try_number=2))
    assert told == []


def test_another_stage_another_run_and_a_cleared_run_are_events_of_their_own(told: list[tuple[str, str]]) -> None:
    callbacks().failure(context(DOWN))
    callbacks().failure(context(DOWN, stage="train"))
    callbacks().failure(context(DOWN, run_id="r2"))
    callbacks().failure(context(DOWN, started=NIGHT + timedelta(hours=6)))
    assert len(told) == 4


def test_without_a_store_it_is_told_and_the_log_says_why(
    told: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("RATCHET_STORE")
    callbacks().failure(context(DOWN))
    assert len(told) == 1
    assert "the store cannot say whether validate.failure." in caplog.text


def test_the_runs_of_a_backfill_are_recorded_and_not_sent(
    told: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(tmp_path / "alerts.jsonl"))
    callbacks().failure(context(DOWN, run_id="backfill__2026-11-20T00:00:00+00:00"))
    assert told == []
    assert "the database did not answer" in (tmp_path / "alerts.jsonl").read_text()


def test_who_asked_for_failures_hears_of_refused_data_too(told: list[tuple[str, str]]) -> None:
    callbacks(on=("failure",)).failure(context(DataRejected("no rows")))
    assert told == [("refused", "1 of 3")]
