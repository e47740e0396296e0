"""How a stage ends is recorded once: its outcome, or the error."""

import uuid
from typing import Any

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import DataRejected, Unavailable
from ratchet.contracts.request import Outcome
from ratchet.runners.process import ProcessRunner
from ratchet.runs.attempt import Attempt
from ratchet.runs.stage_record import StageRecord
from ratchet.store.memory import MemoryStore
from tests.runs.recorded import kept, training
from tests.runs.test_requests import OUTCOMES, plan

PLAN = plan()


class TaskTimeout(BaseException):
    """As Airflow's, which is no Exception."""


class LookAgain(Exception):
    """As Airflow's, with which a task is called again later."""


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(uuid.uuid4().hex)


def attempt(store: MemoryStore) -> Attempt:
    return Attempt(training(store, PLAN), ProcessRunner(), on_event=print)


def test_an_outcome_is_recorded_with_its_seconds_and_the_last_lines(store: MemoryStore) -> None:
    with StageRecord(store, PLAN, "train") as record:
        record.attempt = attempt(store)
        record.attempt.last_lines = ("epoch 2", "saved")
        ended = record.end(OUTCOMES["train"])
    assert ended == OUTCOMES["train"].model_copy(update={"seconds": ended.seconds, "last_lines": ("epoch 2", "saved")})
    assert kept(store, PLAN, "train") == ended
    assert 0 <= ended.seconds < 30


def test_an_error_of_ours_is_recorded_as_a_failure_and_goes_on(store: MemoryStore) -> None:
    with pytest.raises(DataRejected, match="no rows"), StageRecord(store, PLAN, "ingest"):
        raise DataRejected("no rows")
    failed = kept(store, PLAN, "ingest")
    assert (failed.stage, failed.state, failed.because, failed.result) == ("ingest", "failed", "no rows", None)


def test_a_later_try_replaces_the_record_of_an_earlier_one(store: MemoryStore) -> None:
    with pytest.raises(DataRejected), StageRecord(store, PLAN, "train"):
        raise DataRejected("no rows")
    with StageRecord(store, PLAN, "train") as record:
        record.end(OUTCOMES["train"])
    assert kept(store, PLAN, "train").state == "done"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), MemoryError(), TaskTimeout("8 h")])
def test_an_error_of_another_kind_is_recorded_too(store: MemoryStore, error: BaseException) -> None:
    with pytest.raises(type(error)), StageRecord(store, PLAN, "train"):
        raise error
    failed = kept(store, PLAN, "train")
    assert (failed.state, failed.because) == ("failed", f"{type(error).__name__}: {error}".rstrip(": "))


def test_a_record_that_fails_does_not_hide_an_error_of_another_kind(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> bool:
        raise Unavailable("the disk is full")

    monkeypatch.setattr(store, "replace", full)
    with pytest.raises(OSError, match="No space"), StageRecord(store, PLAN, "train"):
        raise OSError(28, "No space left on device")
    with pytest.raises(Unavailable, match="disk is full"), StageRecord(store, PLAN, "train"):
        raise DataRejected("no rows")  # the retry finds the container, and records it


@pytest.mark.parametrize("error", [KeyboardInterrupt, LookAgain])
def test_an_interruption_and_a_later_call_are_no_end(store: MemoryStore, error: type[BaseException]) -> None:
    with pytest.raises(error), StageRecord(store, PLAN, "train", no_end=(LookAgain,)):
        raise error
    assert store.head(paths.outcome("small", "r", "train")) is None


def test_a_try_that_wakes_up_after_a_later_one_has_recorded_its_end_records_nothing(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    def meanwhile() -> Outcome:
        with StageRecord(store, PLAN, "train", try_number=2) as record:
            return record.end(OUTCOMES["train"])

    with StageRecord(store, PLAN, "train", try_number=1) as late:
        ended = meanwhile()
        late.end(Outcome(stage="train", state="failed", because="no rows"))
    assert kept(store, PLAN, "train") == ended
    assert caplog.messages == ["a later try of train has recorded how it ended; this one changes nothing"]


def test_of_two_tries_that_record_at_once_the_later_one_stays(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = store.replace
    for ours, other in ((1, 2), (2, 1)):

        def meanwhile(*given: Any, number: int = other, **named: Any) -> bool:
            monkeypatch.setattr(store, "replace", replace)
            with StageRecord(store, PLAN, "train", try_number=number) as record:
                record.end(OUTCOMES["train"])
            return replace(*given, **named)

        monkeypatch.setattr(store, "replace", meanwhile)
        with StageRecord(store, PLAN, "train", try_number=ours) as record:
            record.end(OUTCOMES["train"])
        assert kept(store, PLAN, "train").try_number == 2


def test_a_run_that_was_deleted_and_made_again_counts_its_tries_anew(store: MemoryStore) -> None:
    with StageRecord(store, PLAN, "train", try_number=3) as record:
        record.end(OUTCOMES["train"])
    with pytest.raises(DataRejected), StageRecord(store, PLAN, "train", try_number=1):
        raise DataRejected("no rows")
    assert kept(store, PLAN, "train").state == "failed"


def test_an_attempt_that_was_taken_over_records_nothing(store: MemoryStore) -> None:
    successor = Outcome(stage="train", state="done", because="the successor's")
    with StageRecord(store, PLAN, "train") as record:
        record.end(successor)
    late = attempt(store)
    late.lost = True
    with StageRecord(store, PLAN, "train") as record:
        record.attempt = late
        record.end(OUTCOMES["train"])
    assert kept(store, PLAN, "train").because == "the successor's"


def test_a_result_is_recorded_that_the_run_lacks_although_another_run_has_taken_the_work_over(
    store: MemoryStore,
) -> None:
    late = attempt(store)
    late.lost = True
    with pytest.raises(Unavailable), StageRecord(store, PLAN, "train", again=lambda _: True):
        raise Unavailable("the store is away")
    with StageRecord(store, PLAN, "train") as record:
        record.attempt = late
        record.end(Outcome(stage="train", state="failed", because="it was stopped"))
        assert kept(store, PLAN, "train").because == "the store is away"
        record.end(OUTCOMES["train"])
    assert kept(store, PLAN, "train").result == OUTCOMES["train"].result
