"""Quantities survive a round trip through their text exactly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts.quantities import (
    MAX_DURATION,
    parse_duration,
    parse_fraction,
    parse_memory,
    percent,
    show_duration,
    show_fraction,
    show_memory,
)


@given(st.floats(0, 1))
def test_a_share_comes_back_the_same(value: float) -> None:
    assert parse_fraction(show_fraction(value)) == value


@given(st.integers(1, MAX_DURATION))
def test_a_duration_comes_back_the_same(seconds: int) -> None:
    assert parse_duration(show_duration(seconds)) == seconds


@given(st.integers(1, 2**50))
def test_an_amount_of_memory_comes_back_the_same(size: int) -> None:
    assert parse_memory(show_memory(size)) == size


def test_quantities_read_as_people_write_them() -> None:
    assert parse_fraction("0.5%") == 0.005
    assert parse_fraction(0.2) == 0.2
    assert parse_duration("1h30m") == 5400
    assert parse_memory("1.5gb") == 3 << 29
    assert show_duration(0) == "0s"
    assert show_fraction(0.2) == "20%"


@pytest.mark.parametrize("text", ["366d", "999999999d", "999999999999d999999999999d"])
def test_a_time_that_no_clock_can_keep_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"^'{text}' is too long; allowed: up to 365d$"):
        parse_duration(text)
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration("9" * 5000 + "d")


@pytest.mark.parametrize("text", ["1025t", "9" * 400 + "t"])
def test_memory_that_no_machine_has_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is too much; allowed: up to 1024t$"):
        parse_memory(text)


@pytest.mark.parametrize(
    ("value", "shown", "signed"),
    [
        (0.0, "0 %", "0 %"),
        (0.02, "2 %", "+2 %"),
        (0.005, "0.5 %", "+0.5 %"),
        (0.95, "95 %", "+95 %"),
        (0.4657134, "46.6 %", "+46.6 %"),
        (0.4398512, "44.0 %", "+44.0 %"),
        (1 / 60, "1.67 %", "+1.67 %"),
        (0.0029083, "0.29 %", "+0.29 %"),
        (0.000031, "0.0031 %", "+0.0031 %"),
        (-0.0000001, "0 %", "0 %"),
        (-0.5, "\N{MINUS SIGN}50 %", "\N{MINUS SIGN}50 %"),
        (12.3456789, "1,235 %", "+1,235 %"),
        (float("inf"), "inf %", "+inf %"),
    ],
)
def test_a_share_is_written_exactly_where_that_is_short_and_else_rounded(value: float, shown: str, signed: str) -> None:
    assert percent(value) == shown
    assert percent(value, signed=True) == signed


@given(st.floats(-20, 20))
def test_a_written_share_is_close_to_its_value(value: float) -> None:
    number = percent(value).removesuffix(" %").replace("\N{MINUS SIGN}", "-").replace(",", "")
    assert float(number) == pytest.approx(100 * value, rel=0.005, abs=0.005)
