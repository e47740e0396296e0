"""The schedule: which day a run is about, and which runs a backfill makes."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pendulum
import pytest
from airflow.timetables.base import TimeRestriction
from hypothesis import given
from hypothesis import strategies as st

from ratchet_airflow.timetable import DayBeforeTimetable


def about(timetable: DayBeforeTimetable, tick: datetime) -> str:
    """The partition of the scheduled run at a tick."""

    return timetable._get_partition_info(pendulum.instance(tick))[1]


def backfilled(timetable: DayBeforeTimetable, first: date, last: date) -> list[str]:
    """The partitions of `airflow backfill create --from-date first --to-date last`, which hands on midnights in UTC."""
    midnight = [datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (first, last)]
    infos = timetable.iter_partition_dagrun_infos(earliest=midnight[0], latest=midnight[1])
    return [str(info.partition_key) for info in infos]


@pytest.mark.parametrize(
    ("cron", "tick"),
    [
        ("0 2 * * *", datetime(2026, 11, 23, 2, tzinfo=UTC)),
        ("0 2 * * 1", datetime(2026, 11, 23, 2, tzinfo=UTC)),
        ("0 */6 * * *", datetime(2026, 11, 23, 18, tzinfo=UTC)),
        ("0 0 * * *", datetime(2026, 11, 23, tzinfo=UTC)),
        ("30 2 1 * *", datetime(2026, 12, 1, 2, 30, tzinfo=UTC)),
    ],
)
def test_a_run_is_about_the_day_that_ended_before_it(cron: str, tick: datetime) -> None:
    assert about(DayBeforeTimetable(cron, "UTC"), tick) == (tick.date() - timedelta(days=1)).isoformat()


def test_days_are_those_of_the_time_zone() -> None:
    tick = datetime(2026, 11, 22, 23, 30, tzinfo=UTC)  # 00:30 on the 23rd in Berlin
    assert about(DayBeforeTimetable("30 0 * * *", "Europe/Berlin"), tick) == "2026-11-22"


def test_a_backfill_has_both_ends() -> None:
    days = backfilled(DayBeforeTimetable("0 2 * * *", "UTC"), date(2026, 11, 10), date(2026, 11, 12))
    assert days == ["2026-11-10", "2026-11-11", "2026-11-12"]


def test_a_backfill_makes_the_runs_that_the_schedule_would_have_made() -> None:
    days = backfilled(DayBeforeTimetable("0 2 * * 1", "UTC"), date(2026, 11, 1), date(2026, 11, 16))
    assert days == ["2026-11-01", "2026-11-08", "2026-11-15"]  # the Sundays before the Mondays


@pytest.mark.parametrize("cron", ["0 2 * * *", "30 2 * * *", "0 */6 * * *"])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "America/Santiago", "Pacific/Apia"])
@given(start=st.dates(date(2026, 1, 1), date(2027, 6, 1)))
def test_no_day_is_lost_or_doubled_when_clocks_change(cron: str, zone: str, start: date) -> None:
    days = [(start + timedelta(days=offset)).isoformat() for offset in range(10)]
    assert backfilled(DayBeforeTimetable(cron, zone), start, start + timedelta(days=9)) == days


@given(hours=st.integers(0, 8 * 24))
def test_scheduled_nights_follow_each_other_through_the_change_of_clocks(hours: int) -> None:
    timetable = DayBeforeTimetable("30 2 * * *", "Europe/Berlin")  # 02:30 does not exist on 2026-03-29

    moment = pendulum.datetime(2026, 3, 25).add(hours=hours)
    tick = timetable._get_next(moment)
    after = timetable._get_next(tick)
    first, second = (date.fromisoformat(about(timetable, night)) for night in (tick, after))
    assert second - first == timedelta(days=1)
    assert tick.astimezone(ZoneInfo("Europe/Berlin")).date() - first == timedelta(days=1)


def test_switching_a_dag_on_runs_the_newest_night_at_once() -> None:
    info = DayBeforeTimetable("0 2 * * *", "UTC").next_dagrun_info_v2(
        last_dagrun_info=None, restriction=TimeRestriction(earliest=None, latest=None, catchup=False)
    )
    assert info is not None
    assert info.run_after <= datetime.now(UTC) < info.run_after + timedelta(days=1)


def test_it_comes_back_from_serialisation() -> None:
    timetable = DayBeforeTimetable("0 2 * * *", "Europe/Berlin")
    assert DayBeforeTimetable.deserialize(timetable.serialize()).serialize() == timetable.serialize()
