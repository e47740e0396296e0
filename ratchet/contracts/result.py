"""Published results: artifacts, and the manifest that makes them visible."""

from datetime import datetime
from typing import Annotated

from pydantic import Field, JsonValue

from ratchet.contracts.document import Document
from ratchet.contracts.stage_environment import StageEnvironment

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Artifact(Document):
    """One file in the store. Each reader compares its bytes with the digest."""

    key: str = Field(description="The path, relative to the store's root.")
    sha256: Sha256
    bytes: int = Field(ge=0)
    rows: int | None = Field(None, ge=0)


class StageResult(Document):
    """The manifest of a finished stage, or of one day's part of it. The outputs exist for readers once it exists."""

    stage: str = Field(description="The stage, or stage.part for the part of a day.")
    fingerprint: Sha256
    parts: dict[str, str] = Field(description="The parts of the fingerprint, which explain a rebuild.")
    content: Sha256 = Field(
        description="The digest of the result's meaning, without paths and times. Later fingerprints depend on it."
    )
    outputs: dict[str, Artifact]
    metrics: dict[str, float] = Field(default_factory=dict)
    summary: dict[str, JsonValue] = Field(
        default_factory=dict, description="The stage's typed document, see ratchet.contracts.summaries."
    )
    timings: dict[str, float] = Field(default_factory=dict, description="Seconds by phase.")
    attempt: str
    finished: datetime
    environment: StageEnvironment | None = Field(None, description="What really ran; None in results of before.")


class PublishedResult(Document):
    """A manifest in the store, and its key."""

    key: str
    result: StageResult
    reused: bool = Field(description="Whether an earlier or a concurrent attempt published it.")
    superseded: str | None = Field(None, description="The key of the manifest that a rebuild replaced with this one.")
