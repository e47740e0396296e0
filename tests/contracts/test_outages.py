"""What does not answer is waited for by a time, not by a number of tries."""

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts.errors import (
    CorruptArtifact,
    Interrupted,
    JobGone,
    NoAnswer,
    OtherCode,
    OtherRelease,
    SourceChanged,
    Unavailable,
)
from ratchet.contracts.outages import LONGEST_S, OnAnotherHost, is_outage, longest_s, next_wait
from ratchet.contracts.stages import StageSettings


@given(st.floats(0.001, 1000), st.floats(1, 1e6))
def test_waits_double_up_to_the_longest_and_add_up_to_the_limit(first_s: float, limit_s: float) -> None:
    waits: list[float] = []
    while (wait_s := next_wait(sum(waits), first_s=first_s, limit_s=limit_s)) is not None:
        assert wait_s <= max(LONGEST_S, first_s)
        waits.append(wait_s)
        if sum(waits) >= limit_s * (1 - 1e-9):
            break
    assert sum(waits) == pytest.approx(limit_s)
    assert len(waits) <= 25 + limit_s / LONGEST_S * 1.1


def test_the_limit_is_the_time_limit_of_an_attempt_or_four_hours_and_none_without_retries() -> None:
    assert StageSettings().outage_s == 4 * 3600
    assert StageSettings.model_validate({"timeout": "12h"}).outage_s == 12 * 3600
    assert StageSettings(retries=0).outage_s == 0
    assert next_wait(0, first_s=1, limit_s=0) is None


def test_a_worker_of_another_host_is_looked_for_each_minute_and_without_retries_too() -> None:
    assert longest_s(Unavailable("x")) == LONGEST_S
    assert longest_s(OnAnotherHost("x")) == 60
    assert next_wait(600, first_s=30, limit_s=StageSettings(retries=0).other_host_s, longest_s=60) == 60


@pytest.mark.parametrize(
    ("error", "outage"),
    [
        (Unavailable("x"), True), (NoAnswer("x"), True), (OtherRelease("x"), True), (ConnectionResetError(), True), (TimeoutError(), True),
        (SourceChanged("x"), False), (Interrupted("x"), False), (OtherCode("x"), False), (JobGone("x"), False), (CorruptArtifact("x"), False),
        (FileNotFoundError("x"), False), (OSError(errno.ESTALE, "x"), True), (OSError(errno.EIO, "x"), False), (OSError("x"), False),
    ],
)  # fmt: skip
def test_what_the_next_try_plans_again_and_what_is_broken_is_no_outage(error: Exception, outage: bool) -> None:
    assert is_outage(error) is outage
