"""What became of a day: its own run accepted or refused its rows, or a person refused them, or let them in."""

from datetime import date, datetime
from typing import Literal

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.contracts.result import Sha256
from ratchet.contracts.snapshot import Snapshot

Action = Literal["accept", "refuse", "admit"]


class DayRecord(Document):
    """One record of a day. Records are never changed; the newest ones say what the day is."""

    day: date
    action: Action = Field(
        description="accept is of a run of this date, refuse of one or of a person, admit of a person."
    )
    source: Sha256 = Field(description="The rows that it is about, by the digest of their source, see SnapshotDay.")
    reason: str = Field("", description="What was refused, or why a person let it in.")
    by: str = Field("", description="The person; empty for a run.")
    run_id: str = Field(description="The run of this date that accepted or refused these rows; empty for a person.")
    recorded: datetime


class DayStates(Document):
    """The records of the earlier days of a window, when the run was planned.

    A day that is not here has no run of its own. An admission counts for the rows that it is about, and for no others.
    """

    refused: tuple[DayRecord, ...] = Field((), description="The days that were refused last.")
    before: tuple[DayRecord, ...] = Field(
        (), description="Refusals of rows that an accepted day had before: these rows stay out, if they come again."
    )
    admitted: tuple[DayRecord, ...] = Field((), description="The newest admission of each of these days.")
    accepted: dict[date, str] = Field(
        default_factory=dict, description="How the digest of the source begins, by day whose newest run accepted it."
    )

    def counted(self, snapshot: Snapshot) -> tuple[DayRecord, ...]:
        """The admissions of the rows that a snapshot holds."""
        sources = {day.day: day.source for day in snapshot.days}
        return tuple(one for one in self.admitted if sources.get(one.day) == one.source)

    def parts(self) -> dict[str, str]:
        """The parts of a fingerprint."""
        refused = {f"day.{one.day}": f"refused {one.source}" for one in self.refused}
        refused |= {f"day.{one.day}.{one.source}": "refused" for one in self.before}
        admitted = {f"day.{one.day}.admitted": f"{one.source} {one.by}: {one.reason}" for one in self.admitted}
        return {**refused, **admitted, **{f"day.{day}": f"accepted {source}" for day, source in self.accepted.items()}}
