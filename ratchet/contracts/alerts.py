"""The events that a pipeline reports, and their receivers."""

from typing import Annotated, Literal

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.contracts.environment import ALERTS
from ratchet.contracts.quantities import Duration

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
    "data",
    "late",
    "stuck",
    "missing",
    "paused",
    "backfill",
]


RECEIVER = r"^[a-z][a-z0-9_-]*$"
"""The name of a receiver."""


class Alerts(Document):
    """The events to report, and their receivers. Addresses are kept outside the file."""

    to: tuple[Annotated[str, Field(pattern=RECEIVER, max_length=60)], ...] = Field(
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
            "data",
            "late",
            "stuck",
            "missing",
            "paused",
            "backfill",
        ),
        description="The events. failure: a stage failed for good, refused data included. refused: the data was "
        "refused. retry: a stage is retried; one alert for each cause. recovered: a stage succeeded after a reported "
        "failure or retry. approval: a candidate waits for approval. rejected: a candidate was not promoted. promoted: "
        "it was. withheld: a better candidate was not promoted, because production had moved, is held, or bans it. "
        "unmeasured: the champion could not be measured for several nights. production: a person changed production by "
        "hand. data: a person let a refused day in, or kept a day out. late: schedule.finish_by has passed. stuck: no "
        "task makes progress. missing: a night has not started alerts.start_by after its time. paused: the same, since "
        "its DAG is paused; once for each pause. backfill: one summary of all its runs.",
    )
    start_by: Duration = Field(
        1800, gt=0, description="Send the missing alert if a night has not started this long after its scheduled time."
    )
