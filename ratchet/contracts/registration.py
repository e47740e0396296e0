"""register: the version of a candidate, and what became of it."""

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.contracts.result import Sha256


class Registration(Document):
    """register: the version, and whether production changed."""

    model: str
    version: str
    mlflow_run_id: str
    promoted: bool
    withheld: str = Field("", description="Why production did not change, if it did not.")
    command: str = Field("", description="Puts it into production, where only a person can.")
    ledger_number: int | None = None
    refit_of: Sha256 | None = Field(
        None, description="The digest of the measured model, if the version is a refit of it."
    )
