"""A share of a stage: a task that makes parts of days for it, and no result that another stage reads."""

from collections.abc import Sized

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.contracts.fingerprint import digest
from ratchet.runtime.context import Finished


class Share(Document):
    """What a share has done."""

    days: int = Field(description="The days of the window whose part is there: made by the share, or found.")


def finished_share(days: Sized) -> Finished:
    """The output of a share. days: those whose part is there."""
    return Finished(content=digest(b"share"), summary=Share(days=len(days)))
