"""The data date: which day's snapshot a run is about. Resolved here and nowhere else."""

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from ratchet.contracts.errors import ConfigurationError


def parse_date(text: str, key: str = "date") -> date:
    """`2026-11-20` as a date. Raises ConfigurationError that names the key."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(f"{key}: {text!r} is not a date", remedy="write it like 2026-11-20") from None


def window(data_date: date, days: int) -> tuple[date, ...]:
    """The days of a window, oldest first, the data date last."""
    return tuple(data_date - timedelta(days=back) for back in range(days - 1, -1, -1))


def between(first: date, last: date) -> tuple[date, ...]:
    """Every day from first to last, both included."""
    if first > last:
        raise ConfigurationError(f"--from {first} is after --to {last}", remedy="swap them")
    return window(last, (last - first).days + 1)


def data_date(
    *,
    run_after: datetime,
    timezone: str,
    asked: str | None = None,
    partition_key: str | None = None,
    interval: tuple[datetime, datetime] | None = None,
    logical_date: datetime | None = None,
) -> date:
    """The data date of an Airflow run, from the first of these that says anything.

    1. asked: what a person wrote into the trigger form or `conf`;
    2. partition_key: what the timetable, REST or a backfill set;
    3. interval: the day in which a data interval of some length starts;
    4. logical_date: the day it lies in, if that day was over when the run was made;
    5. run_after: the day before it.

    Days are those of the pipeline's time zone. Raises ConfigurationError for text that is no
    date, and for days to come.
    """
    zone = ZoneInfo(timezone)
    today = run_after.astimezone(zone).date()
    for key, text in (("date", asked), ("partition_key", partition_key)):
        if text:
            day = parse_date(text, key)
            if day > today:
                raise ConfigurationError(f"{key}: {day} has not come yet", remedy=f"choose a date up to {today}")
            return day
    if interval and interval[0] < interval[1]:
        return min(interval[0].astimezone(zone).date(), today - timedelta(days=1))
    if logical_date:
        return min(logical_date.astimezone(zone).date(), today - timedelta(days=1))
    return today - timedelta(days=1)
