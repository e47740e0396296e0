"""What each stage says to the next: the typed summaries of stage results.

A stage's summary is one of these, kept in its manifest; the bytes that it speaks of are the manifest's outputs, or
artifacts named here. Days are data dates.
"""

from datetime import date
from typing import Literal

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.contracts.result import Artifact, Sha256, StageResult


class SnapshotDay(Document):
    """One partition of the snapshot: one day, one immutable Parquet file."""

    day: date
    file: Artifact
    source: Sha256 = Field(description="Digest over the source files' names and bytes.")


class Snapshot(Document):
    """ingest: (table, version, digest of every file). Training names a snapshot, never "the latest"."""

    table: str = Field(description="The Delta table's key in the store.")
    version: int = Field(ge=0)
    days: tuple[SnapshotDay, ...]
    missing: tuple[date, ...] = Field(
        (), description="Days of the window without data, skipped as source.missing_days says."
    )

    @property
    def rows(self) -> int:
        """Rows over all days."""
        return sum(day.file.rows or 0 for day in self.days)


class Check(Document):
    """One rule, on one day, and how it went. Values are written as a person reads them."""

    day: date
    rule: str = Field(description="Such as volume, null, range, in, drift, or the expectation's name.")
    column: str | None = None
    passed: bool
    severity: Literal["error", "warning"] = "error"
    observed: str
    allowed: str
    key: str = Field(description="The pipeline file's key that sets the rule.")


class Validation(Document):
    """validate: every check, and the earlier days that were left out for breaking a column's rule."""

    checks: tuple[Check, ...]
    excluded: tuple[date, ...] = ()
    rows: dict[date, int] = Field(description="Rows by day.")
    labelled: dict[date, int] = Field(description="Rows with a label by day.")
    psi: dict[str, float] = Field(default_factory=dict, description="By column, of the data date.")


class Split(Document):
    """Which days do what. No day does two things."""

    train: tuple[date, ...]
    valid: tuple[date, ...]
    holdout: tuple[date, ...]


class FeatureDay(Document):
    """One day as arrays (numpy .npy files), row i of each for the same row, sorted by group.

    numeric: float32 [rows, numeric columns], NaN where missing. categorical: int64 [rows, categorical columns], stable
    ids, 0 where missing. label: float32 [rows], or int64 for multiclass. weight: float32 [rows], only with a weight
    column. group: int64 [groups + 1], offsets of the groups into the rows, only with a group column.
    """

    day: date
    rows: int = Field(ge=0)
    unlabelled: int = Field(0, ge=0, description="Rows dropped because they have no label.")
    arrays: dict[str, Artifact]


class FeatureSet(Document):
    """features: encoded days, how they are split, and what was fitted on the training days alone."""

    numeric: tuple[str, ...]
    categorical: tuple[str, ...]
    days: tuple[FeatureDay, ...]
    split: Split

    def of(self, days: tuple[date, ...]) -> tuple[FeatureDay, ...]:
        """The encoded days among some dates, in order."""
        wanted = set(days)
        return tuple(day for day in self.days if day.day in wanted)


class Epoch(Document):
    """One line of a training's history."""

    epoch: int = Field(ge=1)
    loss: float
    valid_loss: float | None = None
    valid_metric: float | None = None
    seconds: float
    samples_per_sec: float


MAX_ACCUMULATION = 64
"""Micro-batches of a step, at most: a training that needs more is not short of memory for its batch."""


class Accumulation(Document):
    """What the store remembers of a training that ran out of memory; later runs that need as much begin with it."""

    accumulation: int = Field(ge=1, le=MAX_ACCUMULATION, description="Micro-batches of a step.")
    run_id: str = Field(description="The run that ran out of memory with half as many.")


class TrainedModel(Document):
    """train: a model that scores raw rows. Outputs: `weights` (safetensors), `description` (JSON)."""

    digest: Sha256 = Field(description="Over weights and description: the model's identity.")
    objective: str
    split: Split
    epochs: tuple[Epoch, ...]
    best_epoch: int = Field(ge=1)
    batch_size: int
    accumulation: int = Field(1, ge=1, description="Micro-batches in which a step of batch_size rows was computed.")
    parameters: int
    rows: int = Field(description="Rows trained on in an epoch.")
    resumed_from: int | None = Field(None, description="The step of the checkpoint that this attempt went on from.")


class Champion(Document):
    """The model in production, live or as of a date, as the ledger names it."""

    model: str
    number: int = Field(ge=1, description="The ledger record's.")
    version: str
    digest: Sha256
    data_date: date
    manifests: dict[str, str] = Field(description="Keys of the manifests of the run that made it, by stage.")


class Interval(Document):
    """A value and its confidence interval (one-sided lower bound, two-sided upper for show)."""

    value: float
    low: float
    high: float


class SliceJudgement(Document):
    """One value of a slice column."""

    column: str
    value: str
    rows: int
    candidate: float | None = Field(description="None where the slice cannot be measured, say without a positive.")
    baseline: float | None
    gain: Interval | None = Field(description="Relative.")
    passed: bool


Verdict = Literal["promote", "reject", "inconclusive"]


class Judgement(Document):
    """evaluate: candidate and baseline on the same rows by the same code, and the verdict."""

    verdict: Verdict
    reason: str = Field(description="A short code, such as better, not-better, first-model, baseline-saw-holdout.")
    explanation: str = Field(description="The same in one sentence with its figures.")
    metric: str
    baseline_kind: Literal["champion", "constant"] = Field(description="constant where there is no champion.")
    baseline: Champion | None
    candidate_metrics: dict[str, float]
    baseline_metrics: dict[str, float]
    gain: Interval = Field(description="Relative gain of the metric, positive is better.")
    smallest_visible_gain: float = Field(description="The smallest relative gain that these rows could have shown.")
    min_gain: float
    confidence: float
    slices: tuple[SliceJudgement, ...] = ()
    holdout: tuple[date, ...]
    rows: int
    groups: int | None = None


class Registration(Document):
    """register: the version, and whether production moved."""

    model: str
    version: str
    mlflow_run_id: str
    promoted: bool
    withheld: str = Field("", description="Why production did not move, if it did not.")
    ledger_number: int | None = None


def snapshot(result: StageResult) -> Snapshot:
    """The summary of an ingest."""
    return Snapshot.model_validate(result.summary)


def validation(result: StageResult) -> Validation:
    """The summary of a validate."""
    return Validation.model_validate(result.summary)


def features(result: StageResult) -> FeatureSet:
    """The summary of a features stage."""
    return FeatureSet.model_validate(result.summary)


def trained(result: StageResult) -> TrainedModel:
    """The summary of a train."""
    return TrainedModel.model_validate(result.summary)


def judgement(result: StageResult) -> Judgement:
    """The summary of an evaluate."""
    return Judgement.model_validate(result.summary)


def registration(result: StageResult) -> Registration:
    """The summary of a register."""
    return Registration.model_validate(result.summary)
