"""The data date: the newest day of the data of a run. No other module resolves it."""

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from ratchet.contracts.errors import ConfigurationError


def parse_date(text: str, key: str = "date") -> date:
    """Parse text such as `2026-11-20` as a date. Raises ConfigurationError that names the key."""
    if not text.strip():
        raise ConfigurationError(
            f"{key} is empty, as from a shell variable that is not set", remedy="write it like 2026-11-20"
        )
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(f"{key}: {text!r} is not a date", remedy="write it like 2026-11-20") from None


def window(data_date: date, days: int) -> tuple[date, ...]:
    """The days of a window, oldest first, the data date last."""
    return tuple(data_date - timedelta(days=back) for back in range(days - 1, -1, -1))


def between(first: date, last: date) -> tuple[date, ...]:
    """Every day from first to last, both included. Raises ConfigurationError if they are in the wrong order."""
    if first > last:
        raise ConfigurationError(f"--from {first} is after --to {last}", remedy="swap them")
    return window(last, (last - first).days + 1)


def data_date(
    *,
    run_after: datetime,
    timezone: str,
    chosen_date: str | None = None,
    partition_key: str | None = None,
    interval: tuple[datetime, datetime] | None = None,
    logical_date: datetime | None = None,
) -> date:
    """The data date of an Airflow run, from the first of these that is set.

    1. chosen_date: the date that a person entered in the trigger form or in `conf`;
    2. partition_key: the date that the timetable, the REST API or a backfill set;
    3. interval: the day in which a data interval starts, unless the interval is empty;
    4. logical_date: the day of the logical date, or yesterday if that day was not over when the run was created;
    5. run_after: the day before.

    Days are in the pipeline's time zone. Raises ConfigurationError for text that is not a date, and for a future day.
    """
    zone = ZoneInfo(timezone)
    today = run_after.astimezone(zone).date()
    for key, text in (("date", chosen_date), ("partition_key", partition_key)):
        if text:
            day = parse_date(text, key)
            if day > today:
                raise ConfigurationError(f"{key}: {day} is in the future", remedy=f"choose a date up to {today}")
            return day
    if interval and interval[0] < interval[1]:
        return min(interval[0].astimezone(zone).date(), today - timedelta(days=1))
    if logical_date:
        return min(logical_date.astimezone(zone).date(), today - timedelta(days=1))
    return today - timedelta(days=1)
