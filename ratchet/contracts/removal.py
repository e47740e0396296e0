"""What was taken out of a pipeline's days for good: the rows of a purged key, or whole days that are kept no longer.

A change here violates the promise of the project when a record holds a value that was purged, or when another release
gives a value another digest: then its rows come back with the next read of the source.
"""

from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from hashlib import blake2b
from typing import Literal

from pydantic import Field

from ratchet.contracts.columns import ColumnType
from ratchet.contracts.document import Document
from ratchet.contracts.result import Sha256
from ratchet.contracts.snapshot import SnapshotDay

_BYTES = 16


class RemovedDay(Document):
    """A version of a day, which is in the store no longer."""

    day: date
    before: Sha256 = Field(description="The digest of its file.")
    rows: int = Field(ge=0, description="The rows that were taken out of it; of an expired day, all.")
    bytes: int = Field(ge=0, description="Of its file.")
    after: SnapshotDay | None = Field(description="The day without these rows; None for a day that expired.")


class LostVersion(Document):
    """A version of a model that cannot be built again."""

    model: str
    version: str
    digest: Sha256 = Field(description="The identity of the model.")
    trained: bool = Field(description="Whether it has learnt from removed rows, and not only been measured on them.")
    days: tuple[date, ...]


class Removal(Document):
    """One purge of a key, or one expiry of days. Until it has ended, no stage of the pipeline starts."""

    number: int = Field(ge=1)
    kind: Literal["purge", "expire"]
    by: str
    because: str
    began: datetime
    ended: datetime | None = None
    column: str = Field("", description="Only of a purge: the column of the key.")
    type: ColumnType | None = Field(None, description="Only of a purge: the type of that column.")
    source: str = Field("", description="Only of a purge: the name of that column in the source; empty: the same.")
    salt: str = Field("", description="Only of a purge: random bytes in hex, with which each value is hashed.")
    values: tuple[str, ...] = Field((), description="Only of a purge: BLAKE2b of each value, keyed by the salt.")
    forms: tuple[str, ...] = Field((), description="The same of `common_form`, for a column whose type has changed.")
    texts: tuple[str, ...] = Field((), description="The same of the texts in the source, for a column of codes.")
    days: tuple[RemovedDay, ...] = ()
    versions: tuple[LostVersion, ...] = Field((), description="Of models, which cannot be built again.")

    @property
    def line(self) -> str:
        """When, who and why, as a part of a sentence; never the value."""
        verb = "purged" if self.kind == "purge" else "expired"
        return f"{verb} on {self.began:%Y-%m-%d} by {self.by} because {self.because}"


def common_form(text: str) -> str:
    """What a value is in columns of several types: 007, 7 and 7.0 are one number, and times are without a zone."""
    try:
        number = Decimal(text)
        return f"{number.normalize()}" if number else "0"
    except InvalidOperation:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return (moment.astimezone(UTC) if moment.tzinfo else moment).replace(tzinfo=None).isoformat()


def value_digest(salt: str, text: str) -> str:
    """What a record has in the place of a value. salt: in hex."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_BYTES, key=bytes.fromhex(salt)).hexdigest()
