"""Time zones by their IANA name, and when a day begins and ends in one."""

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator


def _known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{name!r} is not a time zone; write it like UTC or Europe/Berlin") from None
    return name


TimeZone = Annotated[str, AfterValidator(_known_zone)]


def _time_of_day(text: str) -> str:
    if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", text):
        raise ValueError(f"{text!r} is not a time of day; write it like 04:00")
    return text


TimeOfDay = Annotated[str, AfterValidator(_time_of_day)]


def day_bounds(day: date, timezone: str, starts: str) -> tuple[datetime, datetime]:
    """The first moment of a day and that of the next day, in UTC. A day on which clocks change has 23 or 25 hours.

    timezone: see TimeZone. starts: the time of day at which days begin there, see TimeOfDay.
    """
    zone, begin = ZoneInfo(timezone), time.fromisoformat(starts)
    first, last = (datetime.combine(one, begin, tzinfo=zone).astimezone(UTC) for one in (day, day + timedelta(days=1)))
    return first, last
