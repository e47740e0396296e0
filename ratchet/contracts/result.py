"""Published results: artifacts, and the manifest that makes them visible."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, JsonValue, SerializerFunctionWrapHandler, model_serializer

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
    used: datetime | None = Field(
        None, description="When a run or a person took a result of long ago: `ratchet gc` leaves it. Left out if None."
    )

    @model_serializer(mode="wrap")
    def _without_no_use(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Most results are never taken long after: their bytes are those that earlier releases read."""
        plain: dict[str, Any] = write(self)
        if self.used is None:
            plain.pop("used", None)
        return plain


class PublishedResult(Document):
    """A manifest in the store, and its key."""

    key: str
    result: StageResult
    reused: bool = Field(description="Whether an earlier or a concurrent attempt published it.")
    superseded: str | None = Field(None, description="The key of the manifest that a rebuild replaced with this one.")
