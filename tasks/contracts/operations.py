"""When a pipeline runs, with what, and who hears of it."""

from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field

from tasks.contracts.cron import check_cron
from tasks.contracts.model import Document
from tasks.contracts.quantities import Duration, Memory

Stage = Literal["ingest", "validate", "features", "train", "evaluate", "register", "report"]
STAGES: tuple[Stage, ...] = ("ingest", "validate", "features", "train", "evaluate", "register", "report")


def _known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{name!r} is not a time zone; write it like UTC or Europe/Berlin") from None
    return name


class Schedule(Document):
    """A run each time the cron expression fires; it takes the day that ended before."""

    cron: Annotated[str, AfterValidator(check_cron)] = Field(
        description="Five fields: minute hour day month weekday.",
        json_schema_extra={"pattern": r"^\s*[0-9*,/\-A-Za-z]+(\s+[0-9*,/\-A-Za-z]+){4}\s*$"},
    )
    timezone: Annotated[str, AfterValidator(_known_zone)] = Field("UTC", description="Where its days begin and end.")
    finish_by: Duration | None = Field(
        None, description="How long after its start a run may end before people are told."
    )


class Resources(Document):
    """What a stage's container may use."""

    gpus: int = Field(0, ge=0, le=64, description="Devices.")
    cpus: float = Field(2, gt=0, le=1024, description="A quota, in cores.")
    memory: Memory = Field(4 << 30, description="A hard limit; what needs more ends as out of memory.")
    shm: Memory = Field(256 << 20, description="Of /dev/shm.")
    pids: int = Field(512, ge=16, le=65_536, description="Processes and threads.")


class StageSettings(Document):
    """How a stage's failures are handled."""

    retries: int = Field(2, ge=0, le=100, description="Tries after the first.")
    retry_delay: Duration = Field(30, description="Before the first retry; it grows from there.")
    timeout: Duration = Field(3600, description="Of one try.")
    grace: Duration = Field(30, description="Seconds between the notice to stop and the kill.")


DEFAULT_SETTINGS: dict[Stage, StageSettings] = {
    "ingest": StageSettings(),
    "validate": StageSettings(),
    "features": StageSettings(),
    "train": StageSettings.model_validate({"retries": 3, "timeout": "12h", "grace": "2m"}),
    "evaluate": StageSettings(),
    "register": StageSettings(retries=5),
    "report": StageSettings(),
}


Occasion = Literal[
    "failure", "refused", "retry", "recovered", "approval", "rejected", "promoted", "late", "stuck", "backfill"
]


class Alerts(Document):
    """Who is told of what. A name stands for an address that an operator keeps outside the file."""

    to: tuple[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$", max_length=60)], ...] = Field(
        (), description="Names; each stands for an address that is kept outside of the file."
    )
    on: tuple[Occasion, ...] = Field(
        ("failure", "refused", "retry", "recovered", "approval", "rejected", "late", "stuck", "backfill"),
        description="What they are told of. failure: a stage is given up, refused data included. refused: only the "
        "latter. retry: once for each cause. recovered: a stage that they were told of succeeded. approval: a "
        "candidate waits for a person's word. rejected: the candidate did not go in. promoted: it did. late: "
        "schedule.finish_by has passed. stuck: no task moves. backfill: one summary for all its runs.",
    )
