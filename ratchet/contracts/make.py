"""How a column is made from others of the same row: `columns.NAME.make` of the pipeline file."""

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ratchet.contracts.document import Document
from ratchet.contracts.time_zones import TimeZone

Part = Literal["hour", "weekday", "day", "month", "week", "day_of_year"]
GroupStatistic = Literal["mean", "min", "max", "count", "rank", "share", "difference"]


def _ascending(values: tuple[float, ...]) -> tuple[float, ...]:
    if any(one >= two for one, two in pairwise(values)):
        raise ValueError(f"{', '.join(f'{value:g}' for value in values)} do not ascend")
    return values


class Clip(Document):
    """A number that is held between two bounds."""

    of: str = Field(description="A column of numbers.")
    low: float | None = Field(None, description="What a smaller number becomes.")
    high: float | None = Field(None, description="What a greater number becomes.")


class Bucketize(Document):
    """The number of the bucket that a number lies in."""

    of: str = Field(description="A column of numbers.")
    at: Annotated[tuple[float, ...], AfterValidator(_ascending)] = Field(
        min_length=1,
        max_length=10_000,
        description="Where a bucket ends and the next one begins, ascending. Bucket 0 lies below the first of them; a "
        "number that equals one belongs to the bucket above.",
    )


class Hash(Document):
    """One of so many buckets, by a stable hash of the value."""

    of: str = Field(description="A column of categories.")
    buckets: int = Field(ge=2, le=1 << 31, description="How many; values of one bucket are one category.")


class DatePart(Document):
    """A part of a time."""

    of: str = Field(description="A column of type timestamp or date.")
    part: Part = Field(
        description="hour 0 to 23, weekday 0 (Monday) to 6, day 1 to 31, month 1 to 12, week 1 to 53 (ISO 8601), "
        "day_of_year 1 to 366."
    )
    timezone: TimeZone = Field("UTC", description="The time zone of the part. Times without a zone are in UTC.")


class DaysSince(Document):
    """The days from one time to another, with fractions."""

    of: str = Field(description="The earlier time: a column of type timestamp or date.")
    until: str = Field(description="The later time; the days are negative where it is the earlier one.")


class InGroup(Document):
    """A number from the rows of the same group. Of rankings, whose rows are scored a group at a time."""

    of: str = Field(description="A column of numbers.")
    statistic: GroupStatistic = Field(
        description="mean, min and max of the group's numbers; count: how many there are; rank: 1 for the greatest, "
        "equal ones have the same; share: of the sum; difference: from the mean."
    )


class Make(Document):
    """How a column is made; one of these. It is missing where a value that it needs is missing."""

    ratio: tuple[str, ...] | None = Field(
        None,
        min_length=2,
        max_length=2,
        description="The first column of numbers over the second; missing where the second is 0.",
    )
    difference: tuple[str, ...] | None = Field(
        None, min_length=2, max_length=2, description="The first column of numbers minus the second."
    )
    cross: tuple[str, ...] | None = Field(
        None, min_length=2, max_length=8, description="Several categories as one, such as `DE|mobile`."
    )
    clip: Clip | None = None
    bucketize: Bucketize | None = None
    hash: Hash | None = None
    date_part: DatePart | None = None
    days_since: DaysSince | None = None
    in_group: InGroup | None = None

    @property
    def kind(self) -> str:
        """The one that is given; empty for none or several."""
        given = [name for name in Make.model_fields if getattr(self, name) is not None]
        return given[0] if len(given) == 1 else ""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that it reads, beside the group."""
        found = getattr(self, self.kind) if self.kind else ()
        if isinstance(found, tuple):
            return found
        return (found.of, found.until) if isinstance(found, DaysSince) else (found.of,)
