"""What Ratchet asks of a model registry: who is champion, which versions hold a model, and to move the alias.

One seam with four homes: an MLflow server, asked by its public REST API; MLflow's SQLite file in the store; any other
tracking URI, through MLflow's client; and the memory of this process, for a store in memory. Only the client imports
MLflow, which takes seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

CHAMPION = "champion"
"""The alias of the version in production."""
LEDGER = "ratchet.ledger"
"""The tag of a version with the number of the newest record of the ledger while it was in production."""
RECORDED = f"tags.`{LEDGER}` LIKE '%'"
"""Which versions have that tag, as MLflow's search asks."""
DIGEST = "ratchet.model_digest"
"""The tag with the identity of a version's model."""
SCORING = "ratchet.scoring"
"""The tag with the package that a version is scored by."""
FINGERPRINT = "ratchet.fingerprint"
"""The tag with the fingerprint of a version's training."""

RUN, PIPELINE = "ratchet.run_id", "ratchet.pipeline"
"""The tags with the run that registered a version, and that run's pipeline."""


@dataclass(frozen=True, kw_only=True)
class Version:
    """A version in the registry. number: as the registry counts."""

    number: str
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The identity of its model; empty for a version that Ratchet did not make."""
        return self.tags.get(DIGEST, "")

    @property
    def scoring(self) -> str:
        """The package that it is scored by; empty where that is not known."""
        return self.tags.get(SCORING, "")

    @property
    def record(self) -> int:
        """The number of the ledger's newest record while it was in production; 0 where it never was."""
        number = self.tags.get(LEDGER, "")
        return int(number) if number.isdecimal() else 0


class Registry(Protocol):
    """A model registry. Every call raises Unavailable if it does not answer."""

    @property
    def address(self) -> str:
        """Where it is, without a password, for messages."""
        ...

    def champion(self, model: str) -> Version | None:
        """The version that the alias names; None where there is no alias."""
        ...

    def find(self, model: str, digest: str) -> tuple[Version, ...]:
        """The versions that hold a model, by its digest; the oldest first."""
        ...

    def version(self, model: str, number: str) -> Version | None:
        """One version; None if there is none of that number."""
        ...

    def recorded(self, model: str) -> tuple[Version, ...]:
        """The versions that were in production by a record of the ledger, by their tag."""
        ...

    def mark(self, model: str, version: Version, record: int) -> None:
        """Let the tag of a version name a record of the ledger; 0 for none."""
        ...

    def point(self, model: str, version: Version, record: int) -> None:
        """Let the alias name a version. record: the number of the ledger's newest record; a tag gets it first."""
        ...
