"""What a run sets out to do, and what one stage of it is asked to do."""

from datetime import date, datetime
from typing import Literal

from pydantic import Field

from ratchet.contracts import paths
from ratchet.contracts.document import Document
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.result import Artifact, Sha256, StageResult
from ratchet.contracts.stages import STAGES, Stage
from ratchet.contracts.summaries import MAX_ACCUMULATION, Champion

RunKind = Literal["scheduled", "manual", "backfill", "local"]
AsOf = Literal["then", "now"]
"""Whether a run about the past sees the source as its date's own night saw it, or as it is now."""


class SourceFile(Document):
    """A source file as it stood when the run was planned. `identity` (ETag, or size and mtime) changes when it does."""

    key: str = Field(description="Relative to the source's root.")
    bytes: int
    identity: str


class SourceDay(Document):
    """A day of the source; without files it is missing. For sql and delta, `files` names the query or the version."""

    day: date
    files: tuple[SourceFile, ...]


class Promotion(Document):
    """Whether this run may move production."""

    mode: Literal["auto", "approve", "never"]
    reason: str = Field("", description="Why not, where the mode is never.")


class Pins(Document):
    """What has to be the same for a run to come out the same."""

    commit: str = Field(description="Of the pipeline's repository; `unknown` outside of one.")
    image: str = Field(description="Digest of the stage image, or `process`.")
    python: str
    libraries: dict[str, str]


class RunPlan(Document):
    """A run: everything that is decided before its first stage. Kept at `paths.plan`."""

    run_id: str
    origin: str = Field("", description="What the orchestrator calls the run.")
    kind: RunKind
    spec: PipelineSpec
    bundle: Artifact = Field(description="The pipeline's folder, packed.")
    user_files: dict[str, Sha256] = Field(description="Digests of the folder's Python files.")
    data_date: date
    source_root: str = Field(description="URI below which all source files lie.")
    source: tuple[SourceDay, ...] = Field(description="Every day of the window, oldest first.")
    promotion: Promotion
    champion: Champion | None = Field(
        description="The baseline of drift; evaluate resolves its own once there is a candidate."
    )
    store: str
    tracking_uri: str | None
    pins: Pins
    overrides: dict[str, str] = Field(default_factory=dict)
    rebuild: bool = False
    created: datetime


class Input(Document):
    """A result of an earlier stage."""

    manifest: str
    content: Sha256


class StageRequest(Document):
    """What a container runs: `ratchet stage REQUEST`."""

    stage: Stage
    run_id: str
    attempt: str
    spec: PipelineSpec
    bundle: Artifact
    data_date: date
    source_root: str
    source: tuple[SourceDay, ...] = Field((), description="Only for ingest.")
    inputs: dict[Stage, Input] = Field(default_factory=dict)
    champion: Champion | None = None
    promotion: Promotion
    kind: RunKind
    store: str
    tracking_uri: str | None = None
    pins: Pins
    overrides: dict[str, str] = Field(default_factory=dict)
    accumulation: int = Field(
        1, ge=1, le=MAX_ACCUMULATION, description="Only for train: micro-batches in which a step is computed."
    )
    fingerprint: Sha256
    parts: dict[str, str]

    @property
    def prefix(self) -> str:
        """Where the stage publishes."""
        return paths.published(self.spec.name, self.stage, self.fingerprint)


class Outcome(Document):
    """How a stage of a run ended; kept at `paths.outcome`, so that a run can be told apart from its cache."""

    stage: Stage
    state: Literal["done", "skipped", "failed"]
    cached: bool = False
    seconds: float = 0
    manifest: str | None = None
    content: Sha256 | None = None
    because: str = Field("", description="Why it was rebuilt, skipped or failed.")
    last_lines: tuple[str, ...] = Field((), description="Of its log, where a container or a process ran for it.")
    result: StageResult | None = None


UPSTREAM: dict[Stage, tuple[Stage, ...]] = {
    "ingest": (),
    "validate": ("ingest",),
    "features": ("ingest", "validate"),
    "train": ("features",),
    "evaluate": ("ingest", "train"),
    "register": ("ingest", "train", "evaluate"),
    "report": STAGES[:-1],
}
