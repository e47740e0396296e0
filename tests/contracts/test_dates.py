"""The data date is resolved in one place, for every way to start a run."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts.dates import between, data_date, parse_date, window
from ratchet.contracts.errors import ConfigurationError

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_the_date_of_a_person_comes_first() -> None:
    assert data_date(run_after=NOON, timezone="UTC", chosen_date="2026-10-01", partition_key="2026-10-02") == date(
        2026, 10, 1
    )


def test_a_scheduled_night_and_a_backfill_take_their_partition() -> None:
    assert data_date(run_after=NOON, timezone="UTC", partition_key="2026-11-20") == date(2026, 11, 20)


def test_an_interval_means_the_day_in_which_it_starts() -> None:
    start = datetime(2026, 11, 19, 2, tzinfo=UTC)
    assert data_date(run_after=NOON, timezone="UTC", interval=(start, start + timedelta(days=1))) == date(2026, 11, 19)


def test_an_empty_interval_is_ignored() -> None:
    assert data_date(run_after=NOON, timezone="UTC", interval=(NOON, NOON)) == date(2026, 11, 20)


def test_a_logical_date_of_now_means_the_last_day_that_is_over() -> None:
    assert data_date(run_after=NOON, timezone="UTC", logical_date=NOON) == date(2026, 11, 20)
    past = datetime(2026, 10, 5, tzinfo=UTC)
    assert data_date(run_after=NOON, timezone="UTC", logical_date=past) == date(2026, 10, 5)


def test_the_default_is_yesterday_in_the_pipelines_time_zone() -> None:
    late = datetime(2026, 11, 21, 23, 30, tzinfo=UTC)
    assert data_date(run_after=late, timezone="UTC") == date(2026, 11, 20)
    assert data_date(run_after=late, timezone="Asia/Tokyo") == date(2026, 11, 21)


def test_a_future_day_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="date: 2026-11-22 is in the future"):
        data_date(run_after=NOON, timezone="UTC", chosen_date="2026-11-22")


def test_text_that_is_not_a_date_is_refused_by_its_key() -> None:
    with pytest.raises(ConfigurationError, match="partition_key: 'x' is not a date; to do: write it like 2026-11-20"):
        data_date(run_after=NOON, timezone="UTC", partition_key="x")
    assert parse_date("2026-11-20") == date(2026, 11, 20)


def test_nights_around_a_change_of_the_clock_lose_and_repeat_no_day() -> None:
    nights = [datetime(2026, 10, 24, 0, 30, tzinfo=UTC) + timedelta(days=n) for n in range(4)]
    assert [data_date(run_after=night, timezone="Europe/Berlin") for night in nights] == list(
        between(date(2026, 10, 23), date(2026, 10, 26))
    )


@given(st.dates(date(2000, 1, 1), date(2100, 1, 1)), st.integers(1, 400))
def test_a_window_ends_with_the_data_date_and_has_no_gap(day: date, days: int) -> None:
    found = window(day, days)
    assert len(found) == days
    assert found[-1] == day
    assert all(later - earlier == timedelta(days=1) for earlier, later in pairwise(found))


def test_dates_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="--from 2026-11-20 is after --to 2026-11-19"):
        between(date(2026, 11, 20), date(2026, 11, 19))
