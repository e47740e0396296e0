"""The model that a candidate is compared with, as stages see it."""

from datetime import date

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.contracts.result import Sha256


class Champion(Document):
    """The model in production according to the ledger, now or as of a date."""

    model: str
    number: int = Field(ge=1, description="The number of the ledger record.")
    version: str
    digest: Sha256
    data_date: date
    manifests: dict[str, str] = Field(description="Keys of the manifests of the run that trained it, by stage.")
    shadow: bool = Field(default=False, description="Whether it is a backfill's winner; version is then its date.")
    chosen: date | None = Field(
        None,
        description="The day (UTC) on which a person put it into production; None where a night did, and in documents "
        "of before.",
    )
    pipeline: str = Field("", description="The pipeline that trained it; empty in documents of before.")

    @property
    def title(self) -> str:
        """What people call it."""
        return f"this backfill's winner of {self.version}" if self.shadow else f"production (version {self.version})"

    def title_in(self, pipeline: str) -> str:
        """The same in a run of a pipeline, which may register under the name of another one's model."""
        return f"{self.title}, of pipeline {self.pipeline}" if self.is_foreign(pipeline) else self.title

    def is_foreign(self, pipeline: str) -> bool:
        """Whether another pipeline trained it."""
        return self.pipeline not in {"", pipeline}
