"""Days begin and end in a time zone."""

from datetime import UTC, date, datetime

import pytest

from ratchet.contracts.errors import PipelineInvalid
from ratchet.contracts.loading import loads
from ratchet.contracts.time_zones import day_bounds

FILE = """name: clicks
{schedule}
source:
  kind: files
  uri: /data/{{date}}.csv
  {source}
columns:
  clicked: {{type: bool, role: label}}
  price: {{type: float64, role: numeric}}
train: {{objective: binary}}
"""
DAY = date(2026, 11, 20)


def test_a_day_begins_and_ends_in_its_zone_also_where_the_clocks_change() -> None:
    assert day_bounds(date(2026, 3, 29), "Europe/Berlin", "00:00") == (
        datetime(2026, 3, 28, 23, tzinfo=UTC),
        datetime(2026, 3, 29, 22, tzinfo=UTC),  # 23 hours
    )
    assert day_bounds(DAY, "America/New_York", "04:00") == (
        datetime(2026, 11, 20, 9, tzinfo=UTC),
        datetime(2026, 11, 21, 9, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("schedule", "source", "hour"),
    [
        ("", "", 0),
        ("schedule: {cron: 0 2 * * *, timezone: Asia/Tokyo}", "", 15),
        ("schedule: {cron: 0 2 * * *, timezone: Asia/Tokyo}", "timezone: America/New_York", 5),
        ("", "day_starts: '04:00'", 4),
    ],
)
def test_the_zone_of_the_days_is_that_of_the_source_or_of_the_schedule(schedule: str, source: str, hour: int) -> None:
    spec = loads(FILE.format(schedule=schedule, source=source))
    assert spec.day_bounds(DAY)[0].hour == hour


@pytest.mark.parametrize(("given", "named"), [("timezone: CET+1", "'CET+1'"), ("day_starts: '4:00'", "'4:00'")])
def test_another_zone_or_time_of_day_is_refused_by_name(given: str, named: str) -> None:
    with pytest.raises(PipelineInvalid, match=named.replace("+", r"\+")):
        loads(FILE.format(schedule="", source=given))
