"""When a pipeline runs."""

from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field

from ratchet.contracts.cron import check_cron
from ratchet.contracts.document import Document
from ratchet.contracts.quantities import Duration


def _known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{name!r} is not a time zone; write it like UTC or Europe/Berlin") from None
    return name


class Schedule(Document):
    """When runs start. A run is about the day that ended before it starts."""

    cron: Annotated[str, AfterValidator(check_cron)] = Field(
        description="A cron expression with five fields: minute hour day month weekday.",
        json_schema_extra={"pattern": r"^\s*[0-9*,/\-A-Za-z]+(\s+[0-9*,/\-A-Za-z]+){4}\s*$"},
    )
    timezone: Annotated[str, AfterValidator(_known_zone)] = Field(
        "UTC", description="The time zone of the cron expression and of the days."
    )
    finish_by: Duration | None = Field(
        None, description="Send the late alert if a run has not finished this long after it was queued."
    )
