"""What was changed in a plan after the run was planned, with when and why."""

from datetime import date, datetime

from pydantic import Field

from ratchet.contracts.document import Document


class SourceChange(Document):
    """Days of the source that were planned again, because they changed before ingest had read them."""

    at: datetime
    days: tuple[date, ...]


class Upgrade(Document):
    """The stages that were left were planned again, for the code that was installed by then."""

    at: datetime
    stage: str = Field(description="The first stage that computes with the other code.")
    because: str = Field(description="Why the code of the plan was not used any more.")
    before: str = Field(description="The code and the image of the plan as it was.")
    after: str = Field(description="The same of the plan since.")

    @property
    def line(self) -> str:
        """The change in one line."""
        return f"planned again from {self.stage} on, as {self.because}: {self.before} -> {self.after}"
