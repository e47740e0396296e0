"""Who decides about production: the findings that stop a run, and the people who approve.

The ledger decides, and the registry's alias follows it. A finding is a state of the two in which no run may go on as if
all was well.
"""

from datetime import datetime
from typing import Literal

from pydantic import Field

from ratchet.contracts.document import Document

FindingName = Literal["ledger-lost", "ledger-behind", "ledger-damaged", "registry-behind", "foreign-alias"]


class Finding(Document):
    """Why ledger and registry do not allow a decision about production, and what a person can do."""

    name: FindingName
    explanation: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.name}: {self.explanation}; to do: {self.remedy}"


class Approval(Document):
    """A person's yes to a promotion."""

    name: str = Field(min_length=1)
    at: datetime
    how: str = Field("", description="Where the person answered, as `airflow` or `ratchet promote`.")
