"""One table says what an exit code means."""

import pytest

from ratchet.contracts import errors
from ratchet.contracts.exits import MEANINGS, ExitCode, decide, meaning


def test_every_code_has_a_cause_a_remedy_and_a_decision() -> None:
    assert set(MEANINGS) == set(ExitCode)
    assert all(entry.cause and entry.remedy for entry in MEANINGS.values())


def test_a_failure_that_a_retry_cannot_solve_is_not_retried() -> None:
    assert not MEANINGS[ExitCode.BAD_CONFIGURATION].retry.possible
    assert not MEANINGS[ExitCode.DATA_REJECTED].retry.possible
    assert MEANINGS[ExitCode.UNAVAILABLE].retry == (True, True, False)
    assert MEANINGS[ExitCode.TRY_AGAIN].retry == (True, False, False)


@pytest.mark.parametrize(
    ("code", "attempt", "attempts", "again", "said"),
    [
        (64, 1, 3, False, "the configuration is invalid"),
        (69, 1, 3, True, "retry after a growing delay"),
        (69, 3, 3, False, "all 3 tries are used"),
        (69, 1, 1, False, "its only try is used"),
        (75, 2, 3, True, "retry at once"),
        (137, 2, 3, True, "ran out of memory"),
        (70, 1, 3, True, "a bug"),
        (70, 2, 3, False, "no second retry"),
        (139, 1, 3, True, "signal 11"),
    ],
)
def test_a_decision_and_its_reason(code: int, attempt: int, attempts: int, again: object, said: str) -> None:
    made = decide(code, attempt=attempt, attempts=attempts)
    assert made.retry is again
    assert said in made.reason


@pytest.mark.parametrize(
    ("code", "said"), [(1, "exit code 1"), (139, "signal 11"), (-9, "signal 9"), (65, "the data was rejected")]
)
def test_any_code_has_a_cause_in_words(code: int, said: str) -> None:
    assert said in meaning(code).cause


def test_each_error_carries_its_code_cause_and_what_to_do() -> None:
    for kind in (
        errors.ConfigurationError,
        errors.DataRejected,
        errors.Unavailable,
        errors.Preempted,
        errors.OutOfMemory,
    ):
        error = kind("price: too high")
        assert str(error) == f"price: too high; to do: {MEANINGS[kind.code].remedy}"
    assert str(errors.RatchetError("it broke", remedy="")) == "it broke"
    assert errors.CorruptArtifact("x", remedy="y").code is ExitCode.BUG
