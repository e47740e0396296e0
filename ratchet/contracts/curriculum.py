"""The keys of the order in which a training meets its rows."""

from typing import Literal

from pydantic import Field

from ratchet.contracts.document import Document


class Curriculum(Document):
    """Newer days more often than older ones. An epoch has as many steps as without it, of about as many rows."""

    by: Literal["age"] = Field(description="What decides how often a row is met: age, the age of its day.")
    half_life_days: float = Field(
        ge=0.1,
        le=10_000,
        description="A row of a day that is so many days older than the newest day of the training is met half as "
        "often.",
    )
