"""Which events a pipeline reports, and to whom."""

from typing import Annotated, Literal

from pydantic import Field

from ratchet.contracts.document import Document

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
