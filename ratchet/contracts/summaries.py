"""The typed summaries of stage results, which later stages read.

The manifest of a stage contains its summary. The files of a result are the outputs in the manifest, and the artifacts
in the summary. Days are data dates.
"""

from datetime import date
from typing import Any, Literal, TypeVar

from pydantic import Field, model_validator

from ratchet.contracts.accumulation import Measurement, Segment
from ratchet.contracts.champion import Champion
from ratchet.contracts.document import Document
from ratchet.contracts.judgements import (
    TOO_SLOW,
    UNMEASURABLE,
    GuardJudgement,
    Interval,
    Service,
    SliceJudgement,
    Verdict,
)
from ratchet.contracts.parent import WarmStart
from ratchet.contracts.refit import Refit
from ratchet.contracts.registration import Registration
from ratchet.contracts.result import Artifact, Sha256, StageResult
from ratchet.contracts.snapshot import Snapshot
from ratchet.contracts.stored import take

_Summary = TypeVar("_Summary", bound=Document)


class Check(Document):
    """The result of one rule on one day."""

    day: date
    rule: str = Field(description="Such as volume, null, min, max, in, drift, or the expectation's name.")
    column: str | None = None
    passed: bool
    severity: Literal["error", "warning"] = "error"
    observed: str = Field(description="The value that was found, as text for people.")
    allowed: str = Field(description="The values that the rule allows, as text for people.")
    key: str = Field(description="The pipeline file's key that sets the rule.")

    @property
    def line(self) -> str:
        """The result as a line for people."""
        where = f"column {self.column}" if self.column else "all rows"
        return f"{self.day} {where}: {self.rule}: {self.observed}; allowed: {self.allowed} ({self.key})"


class Validation(Document):
    """validate: every check, and the days that were excluded."""

    checks: tuple[Check, ...]
    excluded: tuple[date, ...] = Field(
        (), description="Earlier days that break a rule of a column, or that their own run refused."
    )
    rows: dict[date, int] = Field(description="Rows by day.")
    labelled: dict[date, int] = Field(description="Rows with a label by day.")
    psi: dict[str, float] = Field(default_factory=dict, description="The drift of the data date, by column.")
    js: dict[str, float] = Field(
        default_factory=dict, description="Its Jensen-Shannon divergence from the same reference, in bits."
    )
    psi_last_week: dict[str, float] = Field(
        default_factory=dict, description="Its drift against the newest seven good days before it."
    )
    immature: tuple[date, ...] = Field(
        (), description="The newest days, whose labels may still arrive: neither trained on nor held out."
    )

    def failures(self, data_date: date) -> list[Check]:
        """The checks that refuse the rows of the data date; not those of other days, nor of the window as a whole."""
        return [
            check
            for check in self.checks
            if not check.passed and check.severity == "error" and check.day == data_date and check.rule != OF_WINDOW
        ]


OF_WINDOW = "excluded days"
"""The rule about the window as a whole."""


class Split(Document):
    """The use of each day. No day has two uses."""

    train: tuple[date, ...]
    valid: tuple[date, ...]
    holdout: tuple[date, ...]


class FeatureDay(Document):
    """One day as arrays. Row i of each array belongs to the same row of the day; rows are sorted by group."""

    day: date
    rows: int = Field(ge=0)
    unlabelled: int = Field(0, ge=0, description="Rows that were dropped because they have no label.")
    arrays: dict[str, Artifact] = Field(
        description="Files of numpy (.npy). numeric: float64 [rows, numeric columns], NaN where missing, or float32 if "
        "it holds each value of the day exactly. categorical: int64 [rows, categorical columns], stable ids, 0 where "
        "missing. label: float32 [rows], int64 for multiclass, float64 for regression. weight: float32 [rows], only "
        "with a weight column. group: int64 [groups + 1], offsets of the groups into the rows, only with a group "
        "column."
    )


class FeatureSet(Document):
    """features: the encoded days and their split. What is fitted on the training days is the output `fitted`."""

    numeric: tuple[str, ...]
    categorical: tuple[str, ...]
    days: tuple[FeatureDay, ...]
    split: Split
    checks: tuple[Check, ...] = Field((), description="The checks of derived columns, on every day.")
    excluded: tuple[date, ...] = Field((), description="Earlier days on which a derived column breaks a rule.")
    refit: tuple[date, ...] = Field(
        (), description="The days of a refit, if the pipeline has one; what is fitted on them is the output `refitted`."
    )

    def of(self, days: tuple[date, ...]) -> tuple[FeatureDay, ...]:
        """The encoded days among some dates, in order."""
        wanted = set(days)
        return tuple(day for day in self.days if day.day in wanted)


class Evaluation(Document):
    """One line of a training's history."""

    step: int = Field(ge=0, description="The steps that were complete; 0 in documents of before.")
    epoch: float = Field(gt=0, description="Passes over the training rows up to there.")
    loss: float
    valid_loss: float | None = None
    valid_metric: float | None = None
    seconds: float
    samples_per_sec: float


class TrainedModel(Document):
    """train, refit: a model that scores raw rows.

    Outputs: `weights` (safetensors), `description` (JSON), `code` (the pipeline's folder), `trace` (.npy, float32
    [steps, 2]: the loss of each step and the norm of its gradient; of each tree its gain and the sum of its leaves).
    """

    digest: Sha256 = Field(description="The digest of weights and description: the identity of the model.")
    objective: str
    split: Split
    evaluations: tuple[Evaluation, ...]
    best: int = Field(ge=1, description="The number of the best evaluation before the fall, from 1.")
    level: float = Field(0, ge=0, description="Epochs at the full learning rate, up to the weights that went on.")
    fall: float = Field(0, ge=0, description="Epochs in which the learning rate fell to nothing.")
    batch_size: int
    accumulation: int = Field(1, ge=1, description="The number of micro-batches of a step at the end.")
    segments: tuple[Segment, ...] = Field((), description="How its steps were computed, the first ones first.")
    measurement: Measurement | None = Field(None, description="How its micro-batches were chosen, if it measured.")
    parameters: int = Field(description="Of boosted trees, their leaves.")
    trees: int | None = Field(None, description="The number of trees; None of a network.")
    rows: int = Field(description="The training rows of an epoch, which is a round of boosted trees.")
    resumed_from: int | None = Field(None, description="The step of the checkpoint that this attempt resumed from.")
    warm_start: WarmStart | None = Field(None, description="The model that it began with; None if all was fresh.")
    refit: Refit | None = Field(None, description="Only for refit; all days of its split are training days.")

    def has_seen(self, days: tuple[date, ...]) -> tuple[date, ...]:
        """The days among some that it, or a model that it began with, was trained or tuned on."""
        own = {*self.split.train, *self.split.valid}
        before = set(self.warm_start.parent.has_seen(days)) if self.warm_start else set()
        return tuple(day for day in days if day in own | before)

    @model_validator(mode="before")
    @classmethod
    def _of_before(cls, given: Any) -> Any:
        """Read documents of before, which had an evaluation at the end of each epoch."""
        if not isinstance(given, dict) or "epochs" not in given:
            return given
        rest = {name: value for name, value in given.items() if name not in {"epochs", "best_epoch"}}
        return {**rest, "evaluations": [{"step": 0, **each} for each in given["epochs"]], "best": given["best_epoch"]}


class Judgement(Document):
    """evaluate: the metrics of candidate and baseline on the same rows, and the verdict."""

    verdict: Verdict
    reason: str = Field(description="A short code, such as better, not-better, first-model, baseline-saw-holdout.")
    explanation: str = Field(description="The reason in one sentence with its figures.")
    metric: str
    baseline_kind: Literal["champion", "constant", "popularity"] = Field(
        description="constant or popularity, the table of mean labels that was harder to beat, if there is no champion."
    )
    baseline: Champion | None
    candidate_metrics: dict[str, float]
    baseline_metrics: dict[str, float]
    gain: Interval = Field(description="The relative gain of the metric; positive is better.")
    smallest_visible_gain: float = Field(description="The smallest relative gain that these rows can detect.")
    min_gain: float = Field(
        description="The margin that the lower bound had to exceed; below 0 against a stale champion."
    )
    confidence: float
    slices: tuple[SliceJudgement, ...] = ()
    holdout: tuple[date, ...]
    rows: int
    groups: int | None = None
    guards: tuple[GuardJudgement, ...] = ()
    attempt: int = Field(1, ge=1, description="Which attempt at these held-out days this is, over all runs.")
    level: float | None = Field(
        None,
        description="The confidence of the bounds of the gain, after all attempts have shared the error of the gate.",
    )
    stale_days: int | None = Field(
        None, description="The age of the champion's data in days, if it was too old to have to be beaten."
    )
    unmeasured_nights: int = Field(
        0, ge=0, description="For how many nights in a row, with this one, the champion could not be measured."
    )
    command: str = Field("", description="The command that ends what no later night can end by itself.")
    offered: bool = Field(
        default=False,
        description="Whether register makes a version for a person to promote: the champion could not be measured for "
        "too long, and the candidate beats a constant by the margin.",
    )
    scores: str = Field("", description="Sha256 of the candidate's scores, float64, little-endian; empty of before.")
    service: Service | None = None

    @property
    def has_version(self) -> bool:
        """Whether register makes a version of the candidate."""
        return self.verdict == "promote" or self.offered

    @property
    def passing(self) -> str:
        """Why the same night may be judged otherwise the next time, in words; empty where it is judged for good.

        Time was measured, or the champion could not be.
        """
        if self.reason in UNMEASURABLE:
            return "the champion could not be measured"
        slow = any(guard.kind == "latency" and guard.outcome != "passed" for guard in self.guards)
        return "it took too long" if self.reason == TOO_SLOW or slow else ""


def snapshot(result: StageResult) -> Snapshot:
    """The summary of an ingest."""
    return _take(Snapshot, result)


def validation(result: StageResult) -> Validation:
    """The summary of a validate."""
    return _take(Validation, result)


def features(result: StageResult) -> FeatureSet:
    """The summary of a features stage."""
    return _take(FeatureSet, result)


def trained(result: StageResult) -> TrainedModel:
    """The summary of a train, or of a refit."""
    return _take(TrainedModel, result)


def judgement(result: StageResult) -> Judgement:
    """The summary of an evaluate."""
    return _take(Judgement, result)


def registration(result: StageResult) -> Registration:
    """The summary of a register."""
    return _take(Registration, result)


def _take(kind: type[_Summary], result: StageResult) -> _Summary:
    """Raises OtherRelease."""
    return take(kind, result.summary, where=f"the summary of {result.stage} by attempt {result.attempt}")
