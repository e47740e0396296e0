"""What a snapshot table holds of each day, in one document: a run finds by it what has changed in the source."""

from collections.abc import Mapping
from datetime import date, datetime
from types import MappingProxyType

from pydantic import Field

from ratchet.contracts import data_versions
from ratchet.contracts.document import Document
from ratchet.contracts.request import SourceDay, SourceFile
from ratchet.contracts.result import Sha256
from ratchet.contracts.snapshot import SnapshotDay


class HeldDay(Document):
    """A day of the snapshot, and what it was read from."""

    day: SnapshotDay
    files: tuple[SourceFile, ...] = Field(description="The files of the source when the day was read.")
    listed: datetime | None = Field(None, description="When the source was listed for the run that read the day.")
    version: int = Field(description="Of the rows, see ratchet.contracts.data_versions.")
    answer: str = Field("", description="What source.changed said before the day was read; empty without it.")
    joined: dict[str, Sha256] = Field(
        default_factory=dict,
        exclude_if=lambda joined: not joined,
        description="What the joined columns were made from, by join, see ratchet.contracts.further_source.",
    )
    etag: str = Field(
        "", description="Of the file in the store when its bytes were last compared with the digest; empty if not yet."
    )


class SnapshotIndex(Document):
    """The days of a table. Beside it lie the table's log and the files, which are what counts."""

    days: dict[date, HeldDay] = Field(default_factory=dict)

    def unchanged(
        self, planned: SourceDay, answer: str | None = None, joined: Mapping[str, str] = MappingProxyType({})
    ) -> SnapshotDay | None:
        """The day as it is held, if the source still has the files that it was read from; None if it has to be read.

        answer: of source.changed, if it was asked. joined: what its joined columns would be made from, by join.
        """
        held = self.days.get(planned.day)
        if held is not None and answer is not None and held.answer != answer:
            return None
        if held is None or held.files != planned.files or held.version != data_versions.ROWS or held.joined != joined:
            return None
        return held.day

    def rest(self, planned: SourceDay) -> SnapshotDay | None:
        """The day as it is held, if the source has some of the files that it was read from, and no others."""
        held = self.days.get(planned.day)
        return held.day if held is not None and {*planned.files} < {*held.files} else None

    def is_newer(self, planned: SourceDay, listed: datetime | None) -> bool:
        """Whether another run has read other rows of the day since this one listed the source."""
        held = self.days.get(planned.day)
        if held is None or held.listed is None or listed is None or held.listed <= listed:
            return False
        return held.day != planned.held and held.files != planned.files

    def entry(self, day: SnapshotDay) -> HeldDay | None:
        """What the index says of just these rows of a day."""
        held = self.days.get(day.day)
        return held if held is not None and held.day == day else None
