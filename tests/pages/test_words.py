import pytest

from ratchet.contracts.judgements import Interval
from ratchet.pages.words import count, interval, seconds


@pytest.mark.parametrize(
    ("value", "shown"), [(0.44, "0.4 s"), (12.3, "12 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")]
)
def test_a_duration_is_written_in_the_units_that_fit_it(value: float, shown: str) -> None:
    assert seconds(value) == shown


@pytest.mark.parametrize(("number", "shown"), [(0, "0 rows"), (1, "1 row"), (3000, "3,000 rows")])
def test_a_count_has_its_noun_in_the_right_number(number: int, shown: str) -> None:
    assert count(number, "row") == shown


def test_a_gain_is_written_with_its_bounds_or_as_not_measurable() -> None:
    gain = Interval(value=0.0144, low=-0.0029083, high=0.0328)
    assert interval(gain) == "+1.44 % (\N{MINUS SIGN}0.29 % to +3.28 %)"
    assert interval(None) == "not measurable"
