"""When the morning digest is due: once a day, at a time of day in a time zone."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from ratchet.contracts.document import Document
from ratchet.contracts.time_zones import TimeOfDay, TimeZone, day_bounds

_LATE = timedelta(hours=12)
"""A digest that could not be sent for so long is left out; the next one has its news."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestDay:
    """A digest. day: its own, which names it. since: when the one of the day before was due. until: when it is due."""

    day: date
    since: datetime
    until: datetime


class DigestTime(Document):
    """A time of day, and its time zone."""

    at: TimeOfDay
    timezone: TimeZone = "UTC"

    def due(self, now: datetime) -> DigestDay | None:
        """The digest that is due and not too late to send; None if there is none."""
        today = now.astimezone(ZoneInfo(self.timezone)).date()
        found = (self.of(day) for day in (today, today - timedelta(days=1)))
        return next((one for one in found if one.until <= now < one.until + _LATE), None)

    def of(self, day: date) -> DigestDay:
        """The digest of a day. On a day on which clocks change it has 23 or 25 hours."""
        since, until = day_bounds(day - timedelta(days=1), self.timezone, self.at)
        return DigestDay(day=day, since=since, until=until)


def parse_digest(value: object) -> object:
    """`07:30 Europe/Berlin` -> a DigestTime; in UTC without a zone. Raises ValueError for other text."""
    if not isinstance(value, str):
        return value
    at, _, timezone = value.strip().partition(" ")
    try:
        return DigestTime(at=at, timezone=timezone.strip() or "UTC")
    except ValidationError as error:
        raise error.errors()[0]["ctx"]["error"] from None
