"""The model whose weights a training begins with, and what of it was taken.

A change here violates the promise of the project when a training begins with a parent that its record does not name, or
with one that has seen its held-out days.
"""

from datetime import date

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.contracts.result import Artifact, Sha256


class Parent(Document):
    """A model that was in production. Decided when a run is planned, so that every try begins with the same."""

    model: str
    version: str
    digest: Sha256 = Field(
        description="The identity of the model, see TrainedModel.digest; of the refit, if it is one."
    )
    data_date: date
    weights: Artifact
    description: Artifact
    since: date = Field(description="The oldest day that it, or a parent of it, was trained on.")
    until: date = Field(description="The newest day that it, or a parent of it, was trained on.")
    epochs: float = Field(
        gt=0, description="Passes over its rows that the last training took that did not begin with a parent."
    )
    generation: int = Field(
        1, ge=1, description="How many warm starts lead from a training without a parent to a child of this model."
    )

    def has_seen(self, days: tuple[date, ...]) -> tuple[date, ...]:
        """The days among some that it, or a parent of it, may have been trained on."""
        return tuple(day for day in days if self.since <= day <= self.until)

    @property
    def title(self) -> str:
        """What people call it."""
        return f"version {self.version} of {self.model} (model {self.digest[:12]}, data of {self.data_date})"


class WarmStart(Document):
    """How a training began whose weights were not all random."""

    parent: Parent
    parameters: int = Field(ge=0, description="Parameters of the layers that were copied.")
    of_parameters: int
    rows: int = Field(ge=0, description="Vectors of categories that were copied.")
    of_rows: int
    refitted: tuple[str, ...] = Field(
        (), description="Shared columns that have moved too far to keep the parent's standardisation."
    )

    @property
    def is_close(self) -> bool:
        """Whether half of the model or more came over: then a short training is enough."""
        return 2 * self.parameters >= self.of_parameters and 2 * self.rows >= self.of_rows

    @property
    def in_words(self) -> str:
        """What was copied."""
        moved = f"; standardised as in a fresh start: {', '.join(self.refitted)}" if self.refitted else ""
        return (
            f"{self.parameters:,} of {self.of_parameters:,} parameters of layers and {self.rows:,} of {self.of_rows:,}"
            f" vectors of categories{moved}"
        )


def parent_digest(start: WarmStart | None) -> str | None:
    """The digest of the model that a training began with, if there is one."""
    return start.parent.digest if start else None
