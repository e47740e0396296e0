"""The table of exit codes as a retry policy."""

from datetime import timedelta

import pytest
from airflow.sdk import RetryAction
from airflow.sdk.exceptions import AirflowException, AirflowTaskTimeout

from ratchet.contracts.errors import (
    ConfigurationError,
    CorruptArtifact,
    DataRejected,
    OutOfMemory,
    PipelineInvalid,
    Preempted,
    RatchetError,
    Unavailable,
)
from ratchet_airflow.retries import StageRetryPolicy

POLICY = StageRetryPolicy(30)


def decide(error: BaseException, try_number: int = 1) -> tuple[RetryAction, timedelta | None]:
    decision = POLICY.evaluate(error, try_number=try_number, max_tries=3)
    return decision.action, decision.retry_delay


def seconds(error: BaseException, try_number: int = 1) -> float:
    action, delay = decide(error, try_number)
    assert action is RetryAction.RETRY
    assert delay is not None
    return delay.total_seconds()


@pytest.mark.parametrize("error", [ConfigurationError("x"), PipelineInvalid([]), DataRejected("x")])
def test_what_cannot_succeed_fails_at_once(error: RatchetError) -> None:
    assert decide(error)[0] is RetryAction.FAIL


@pytest.mark.parametrize("error", [Preempted("x"), OutOfMemory("x")])
def test_what_was_cut_off_goes_on_at_once(error: RatchetError) -> None:
    assert decide(error) == (RetryAction.RETRY, timedelta(0))


@pytest.mark.parametrize(
    "error",
    [Unavailable("x"), RatchetError("x"), CorruptArtifact("x"), ValueError("x"), AirflowException("x")],
)
def test_what_may_pass_waits_and_not_all_wait_equally_long(error: BaseException) -> None:
    waits = {seconds(error) for _ in range(20)}
    assert all(22.5 <= wait <= 37.5 for wait in waits)
    assert len(waits) > 1


def test_delays_grow_up_to_half_an_hour() -> None:
    policy = StageRetryPolicy(600)
    grown = [policy.evaluate(Unavailable("x"), number, 10).retry_delay for number in (1, 2, 9)]
    for delay, expected in zip(grown, (600, 1200, 1800), strict=True):
        assert delay is not None
        assert 0.75 * expected <= delay.total_seconds() <= 1.25 * expected


def test_a_bug_is_tried_once_more_and_an_outage_for_as_long_as_there_are_tries() -> None:
    for bug in (RatchetError("x"), ValueError("x")):
        assert decide(bug, 2)[0] is RetryAction.FAIL
        assert "a bug in Ratchet" in str(POLICY.evaluate(bug, try_number=1, max_tries=3).reason)
    for outage in (Unavailable("x"), ConnectionResetError("x")):
        assert seconds(outage, 3) > 60
    assert decide(Unavailable("x"), 4)[0] is RetryAction.FAIL


@pytest.mark.parametrize(
    ("error", "said"), [(DataRejected("x"), "the data was rejected"), (Unavailable("x"), "growing")]
)
def test_a_decision_says_its_reason(error: RatchetError, said: str) -> None:
    assert said in str(POLICY.evaluate(error, try_number=1, max_tries=3).reason)


@pytest.mark.parametrize("error", [AirflowException("x"), AirflowTaskTimeout("x")])
def test_what_is_airflows_and_has_no_try_left_follows_its_own_rule(error: BaseException) -> None:
    assert seconds(error, 3) > 60
    assert decide(error, 4)[0] is RetryAction.DEFAULT


def test_the_policy_comes_back_from_serialisation() -> None:
    restored = StageRetryPolicy.deserialize(POLICY.serialize())
    assert restored.evaluate(DataRejected("x"), 1, 3).action is RetryAction.FAIL
    assert restored.delay_s == 30
