from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts.repetition import HoldoutAttempt, Repetition, numbers

DAY = date(2026, 11, 20)


def attempt(nights: int = 1, back: int = 0) -> HoldoutAttempt:
    return HoldoutAttempt(candidate="c", metric="auc", data_date=DAY + timedelta(days=back), nights=nights, run_id="r")


def test_the_first_attempt_has_nine_tenths_of_a_night_and_all_later_ones_the_rest() -> None:
    assert Repetition().level(0.95) == pytest.approx(0.955)
    assert Repetition(number=2).level(0.95) == pytest.approx(1 - 0.05 * 0.0608, abs=1e-5)
    assert sum(Repetition(number=number).share for number in range(1, 100_000)) <= 1
    assert sum(Repetition(number=number).share for number in range(1, 100_000)) == pytest.approx(1, abs=1e-5)
    assert Repetition(nights=7).share == pytest.approx(0.9 / 7)


def test_consecutive_nights_that_share_a_day_are_each_a_first_attempt() -> None:
    assert numbers([attempt(3, back) for back in range(3)]) == [1, 1, 1]
    assert numbers([attempt(3, back) for back in range(4)]) == [1, 1, 1, 2]


def test_reruns_are_later_attempts() -> None:
    assert numbers([attempt(), attempt(), attempt()]) == [1, 2, 3]
    assert numbers([attempt(3), attempt(3), attempt(3, 1), attempt(3)]) == [1, 2, 1, 3]


def test_another_number_of_held_out_days_or_another_date_buys_nothing() -> None:
    assert numbers([attempt(1), attempt(2)]) == [1, 2]
    assert numbers([attempt(1), attempt(2, 1), attempt(5, 2)]) == [1, 2, 3]


@given(st.lists(st.tuples(st.integers(1, 10), st.integers(0, 10)), max_size=40))
def test_the_attempts_at_a_day_never_spend_more_than_its_budget(made: list[tuple[int, int]]) -> None:
    attempts = [attempt(nights, back) for nights, back in made]
    found = [
        Repetition(number=number, nights=one.nights) for number, one in zip(numbers(attempts), attempts, strict=True)
    ]
    assert sum(one.share for one in found) <= 1 + 1e-9
