"""The record of a registered version: everything that it was made from, in one document that needs no other.

It names files of the store by their digests, and repeats what manifests and plans say, so that a version can be rebuilt
and explained when these are gone. The source is no part of it: its days are files of the snapshot.

A training begins with random weights, or with those of another version: `parent` names it, with the files of its model.
"""

from datetime import date, datetime
from typing import Any, Literal

from pydantic import Field, model_validator

from ratchet.contracts.authority import Approval
from ratchet.contracts.day_record import DayRecord
from ratchet.contracts.document import Document
from ratchet.contracts.gate import Gate
from ratchet.contracts.parent import Parent
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import Pins, Promotion, RunKind
from ratchet.contracts.result import Artifact, Sha256
from ratchet.contracts.snapshot import Snapshot
from ratchet.contracts.stage_environment import StageEnvironment
from ratchet.contracts.stages import Stage
from ratchet.contracts.summaries import Judgement, TrainedModel


class RecordedStage(Document):
    """One stage that led to the version."""

    manifest: str = Field(description="The key of its manifest in the store.")
    fingerprint: Sha256
    content: Sha256
    parts: dict[str, str] = Field(description="The parts of its fingerprint; `code.*` are digests of our modules.")
    environment: StageEnvironment | None = Field(description="What really ran; None in a result of before.")
    attempt: str = Field(description="The attempt that computed it.")
    finished: datetime
    timings: dict[str, float] = Field(description="Seconds by phase.")

    def code(self) -> dict[str, str]:
        """Digests of our modules that it ran, by name."""
        return {name.removeprefix("code."): sha for name, sha in self.parts.items() if name.startswith("code.")}


class VersionRecord(Document):
    """A version of the registry. Written once, before the version can go into production."""

    format: Literal[1] = 1
    model: str
    version: str
    digest: Sha256 = Field(
        description="The identity of the model, see TrainedModel.digest; of the refit, if it is one."
    )
    mlflow_run_id: str
    registered: datetime

    pipeline: str
    run_id: str
    kind: RunKind
    data_date: date
    started_by: str = Field(description="Who started the run; empty for a schedule.")
    approvals: tuple[Approval, ...] = Field((), description="Who said yes to it before it was registered.")
    promotion: Promotion = Field(description="Whether the run might move production.")

    spec: PipelineSpec = Field(description="With the overrides.")
    columns: tuple[str, ...] = Field(description="Their order, which a JSON object with sorted keys has lost.")
    overrides: dict[str, str]
    bundle: Artifact = Field(description="The pipeline's folder, packed.")
    files: dict[str, Sha256] = Field(description="Digests of the folder's files.")
    pins: Pins = Field(description="The commit, the image, and the libraries of its lock file.")
    seed: int

    snapshot: Snapshot = Field(description="Table, version, and the file of every day with its digest.")
    excluded: tuple[date, ...] = Field(description="Days of the snapshot that validate left out.")
    let_in: tuple[DayRecord, ...] = Field(description="Days that a person let in although their run refused them.")
    arrays: dict[date, dict[str, Sha256]] = Field(description="Digests of the encoded arrays, by day and name.")
    fitted: Sha256 | None = Field(description="The digest of what was fitted on the training days.")

    trained: TrainedModel = Field(description="The measured training: split, epochs, batch, micro-batches, resumption.")
    refit: TrainedModel | None = Field(description="What is shipped in its place, where train.refit says so.")
    weights: dict[Stage, Artifact] = Field(description="Of the training, and of the refit.")
    traces: dict[Stage, Artifact] = Field(description="Loss and norm of the gradient of each step, of the same.")
    gate: Gate
    judgement: Judgement = Field(description="The verdict with its figures.")
    scores: Artifact | None = Field(description="What candidate and baseline gave each held-out row.")
    stages: dict[Stage, RecordedStage]

    @property
    def parent(self) -> Parent | None:
        """The model that its training began with, and its refit too."""
        return self.trained.warm_start.parent if self.trained.warm_start else None

    @model_validator(mode="before")
    @classmethod
    def _in_order(cls, data: Any) -> Any:
        """The columns of the file in their order: it decides the order of the model's inputs, and so its bits."""
        match data:
            case {"columns": [*names], "spec": {"columns": dict(given), **others}} if {*names} == {*given}:
                return {**data, "spec": {**others, "columns": {name: given[name] for name in names}}}
        return data
