"""The snapshot of a run: the days of its window as immutable files of one version of a table."""

from datetime import date
from typing import Literal

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.contracts.readers import Reader
from ratchet.contracts.result import Artifact, Sha256


class SnapshotDay(Document):
    """One partition of the snapshot: one day, one immutable Parquet file."""

    day: date
    file: Artifact
    source: Sha256 = Field(
        description="The digest of the source files' names and bytes; of a query or a Delta table, of the day's rows. "
        "What further sources join to them is not in it, so that what was said of a day stays said of it."
    )
    zones: dict[str, bool] = Field(
        default_factory=dict,
        description="By timestamp column: true if the source gave a zone other than UTC, false if it gave none.",
    )


class KeptRows(Document):
    """Held-out days with the columns of a model in production, where the pipeline file does not have them all.

    Row i of such a day is row i of the day's file in the snapshot.
    """

    reader: Reader
    days: tuple[SnapshotDay, ...]
    cause: str = Field("", description="Why a day is not there, if one is not: such as a column that the source lost.")


class Snapshot(Document):
    """ingest: a version of the snapshot table, with the digest of every file. A training always names a version."""

    table: str = Field(description="The Delta table's key in the store.")
    version: int = Field(ge=0)
    days: tuple[SnapshotDay, ...]
    missing: tuple[date, ...] = Field(
        (), description="Days of the window without data, if source.missing_days is skip."
    )
    held: tuple[date, ...] = Field(
        (), description="Days that were taken from the snapshot, and not looked for in the source, see SourceDay.held."
    )
    as_of: Literal["then", "now"] = Field("now", description="Whether it is the source as it was, see RunPlan.")
    kept: tuple[KeptRows, ...] = Field((), description="Rows for models in production that read other columns.")
    purged: tuple[date, ...] = Field((), description="Days without rows that they had once: those of a purged key.")

    @property
    def origin(self) -> str:
        """Where the rows come from, in words; for the lineage."""
        then = ", the source as it was then" if self.as_of == "then" else ""
        held = f", {len(self.held)} of its days from the snapshot alone" if self.held and not then else ""
        purged = f", without purged rows of {len(self.purged)} of its days" if self.purged else ""
        return f"{self.table} version {self.version}{then or held}{purged}"

    @property
    def rows(self) -> int:
        """Rows over all days."""
        return sum(day.file.rows or 0 for day in self.days)
