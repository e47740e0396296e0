"""The table of exit codes as a retry policy."""

from datetime import timedelta

import pytest
from airflow.sdk import RetryAction
from hypothesis import given
from hypothesis import strategies as st

from ratchet_airflow.retries import RETRY_POLICY
from ratchet_airflow.run_id import store_run_id
from tasks.contracts import paths
from tasks.contracts.errors import (
    ConfigurationError,
    CorruptArtifact,
    DataRejected,
    OutOfMemory,
    PipelineInvalid,
    Preempted,
    RatchetError,
    Unavailable,
)


def decide(error: BaseException, try_number: int = 1) -> tuple[RetryAction, timedelta | None]:
    decision = RETRY_POLICY.evaluate(error, try_number=try_number, max_tries=3)
    return decision.action, decision.retry_delay


@pytest.mark.parametrize("error", [ConfigurationError("x"), PipelineInvalid([]), DataRejected("x")])
def test_what_cannot_succeed_fails_at_once(error: RatchetError) -> None:
    assert decide(error)[0] is RetryAction.FAIL


@pytest.mark.parametrize("error", [Preempted("x"), OutOfMemory("x")])
def test_what_was_cut_off_goes_on_at_once(error: RatchetError) -> None:
    assert decide(error) == (RetryAction.RETRY, timedelta(0))


@pytest.mark.parametrize("error", [Unavailable("x"), RatchetError("x"), CorruptArtifact("x")])
def test_what_may_pass_is_retried_with_the_growing_delay(error: RatchetError) -> None:
    assert decide(error) == (RetryAction.RETRY, None)


def test_a_bug_is_tried_once_more_and_an_outage_for_as_long_as_there_are_tries() -> None:
    assert decide(RatchetError("x"), 2)[0] is RetryAction.FAIL
    assert decide(Unavailable("x"), 3) == (RetryAction.RETRY, None)
    assert decide(Unavailable("x"), 4)[0] is RetryAction.FAIL


@pytest.mark.parametrize(
    ("error", "said"), [(DataRejected("x"), "the data was rejected"), (Unavailable("x"), "growing")]
)
def test_a_decision_says_its_reason(error: RatchetError, said: str) -> None:
    assert said in str(RETRY_POLICY.evaluate(error, try_number=1, max_tries=3).reason)


def test_what_is_not_ours_follows_airflows_own_rule() -> None:
    assert decide(ValueError("x"))[0] is RetryAction.DEFAULT


def test_the_policy_comes_back_from_serialisation() -> None:
    restored = type(RETRY_POLICY).deserialize(RETRY_POLICY.serialize())
    assert restored.evaluate(DataRejected("x"), 1, 3).action is RetryAction.FAIL


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_run_id_becomes_part_of_a_path_and_two_never_become_one(one: str, other: str) -> None:
    first, second = store_run_id(one), store_run_id(other)
    assert paths.segment(first) == first
    assert (first == second) == (one == other)


def test_a_plain_run_id_stays_as_it_is() -> None:
    assert store_run_id("manual__2026-11-21") == "manual__2026-11-21"
