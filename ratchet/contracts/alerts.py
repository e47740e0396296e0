"""The events that a pipeline reports, and their receivers."""

from typing import Annotated, Literal

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.contracts.environment import ALERTS

Occasion = Literal[
    "failure",
    "refused",
    "retry",
    "recovered",
    "approval",
    "rejected",
    "promoted",
    "withheld",
    "unmeasured",
    "production",
    "late",
    "stuck",
    "backfill",
]


class Alerts(Document):
    """The events to report, and their receivers. Addresses are kept outside the file."""

    to: tuple[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$", max_length=60)], ...] = Field(
        (),
        description=f"Names of receivers. The address of a name is the setting {ALERTS}<NAME>, or the Airflow "
        "connection ratchet_alerts_<name>.",
    )
    on: tuple[Occasion, ...] = Field(
        (
            "failure",
            "refused",
            "retry",
            "recovered",
            "approval",
            "rejected",
            "withheld",
            "unmeasured",
            "production",
            "late",
            "stuck",
            "backfill",
        ),
        description="The events. failure: a stage failed for good, refused data included. refused: the data was "
        "refused. retry: a stage is retried; one alert for each cause. recovered: a stage succeeded after a reported "
        "failure or retry. approval: a candidate waits for approval. rejected: a candidate was not promoted. promoted: "
        "it was. withheld: a better candidate was not promoted, because production had moved, is held, or bans it. "
        "unmeasured: the champion could not be measured for several nights. production: a person changed production by "
        "hand. late: schedule.finish_by has passed. stuck: no task makes progress. backfill: one summary of all its "
        "runs.",
    )
