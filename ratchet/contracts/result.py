"""What was published: artifacts, and the manifest that makes them visible."""

from datetime import datetime
from typing import Annotated

from pydantic import Field, JsonValue

from ratchet.contracts.document import Document

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Artifact(Document):
    """One file in the store. Whoever reads it checks its bytes against the digest."""

    key: str = Field(description="Where it is, relative to the store's root.")
    sha256: Sha256
    bytes: int = Field(ge=0)
    rows: int | None = Field(None, ge=0)


class StageResult(Document):
    """The manifest of a finished stage, or of one day's part of it. Its existence is what makes the outputs exist."""

    stage: str = Field(description="The stage, or stage.part for what is cached by day.")
    fingerprint: Sha256
    parts: dict[str, str] = Field(description="What the fingerprint was made of, so that a rebuild can be explained.")
    content: Sha256 = Field(
        description="Digest of what the outcome means, free of places and times; fingerprints downstream rest on it."
    )
    outputs: dict[str, Artifact]
    metrics: dict[str, float] = Field(default_factory=dict)
    summary: dict[str, JsonValue] = Field(
        default_factory=dict, description="The stage's typed document, see documents."
    )
    timings: dict[str, float] = Field(default_factory=dict, description="Seconds by phase.")
    attempt: str
    finished: datetime


class Published(Document):
    """A manifest that stands in the store, and where."""

    key: str
    result: StageResult
    reused: bool = Field(description="Whether it stood there before: published by an earlier or a concurrent attempt.")
