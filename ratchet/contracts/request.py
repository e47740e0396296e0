"""The plan of a run, and the request for one of its stages."""

from collections.abc import Iterable, Iterator
from datetime import date, datetime
from typing import Literal

from pydantic import Field

from ratchet.contracts import paths
from ratchet.contracts.accumulation import Segment
from ratchet.contracts.approval import Answer
from ratchet.contracts.authority import Finding
from ratchet.contracts.champion import Champion
from ratchet.contracts.day_record import DayStates
from ratchet.contracts.document import Document
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.parent import Parent
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.plan_changes import SourceChange, Upgrade
from ratchet.contracts.readers import Reader
from ratchet.contracts.repetition import Repetition
from ratchet.contracts.result import Artifact, Sha256, StageResult
from ratchet.contracts.resuming import resume_key
from ratchet.contracts.snapshot import SnapshotDay
from ratchet.contracts.source import Source
from ratchet.contracts.stages import STAGES, Stage
from ratchet.contracts.step_rows import MAX_ACCUMULATION

RunKind = Literal["scheduled", "manual", "backfill", "local", "reproduction"]
"""What made a run. A reproduction rebuilds a version from its record, and is no run of its date."""
AsOf = Literal["then", "now"]
"""Whether a run for a past date reads the source as it was on that night, or as it is now."""


_ANOTHER_SOURCE = frozenset(
    f"source{key}" for key in ("", ".kind", ".uri", ".query", ".date_column", ".version", ".timezone", ".day_starts")
)


_OF_ROWS = ("source.csv", "source.names", "source.codes", "joins")


def names_another_source(overrides: Iterable[str]) -> bool:
    """Whether a person gave a run alone another source: what it reads is not the pipeline's data."""
    return any(name in _ANOTHER_SOURCE or name.startswith(_OF_ROWS) for name in overrides)


class SourceFile(Document):
    """A source file when the run was planned."""

    key: str = Field(description="Relative to the source's root.")
    bytes: int
    identity: str = Field(description="The ETag, or size and mtime. It changes when the file changes.")


class SourceDay(Document):
    """A day of the source."""

    day: date
    files: tuple[SourceFile, ...] = Field(
        description="Those that the source has. For sql and delta they name the query or the version."
    )
    held: SnapshotDay | None = Field(
        None,
        description="The day as the snapshot has it, where it is read from there: the source has no files of it any "
        "more, or the run takes it as it was then.",
    )

    @property
    def missing(self) -> bool:
        """Whether neither the source nor the snapshot has the day."""
        return not self.files and self.held is None

    @property
    def identity(self) -> str:
        """What changes with its rows: it is a part of the fingerprint of ingest."""
        if self.held is not None:
            return f"held {self.held.file.sha256}"
        return digest_of([file.model_dump(mode="json") for file in self.files]) if self.files else "missing"


class FurtherDays(Document):
    """The days of a further source that the joins of a window look at."""

    root: str = Field(description="URI below which all of its files lie.")
    days: tuple[SourceDay, ...] = Field(description="Oldest first.")


class Promotion(Document):
    """Whether this run may change production."""

    mode: Literal["auto", "approve", "never"]
    reason: str = Field("", description="The reason, if the mode is never.")


PROCESS = "process"
"""What a plan has in the place of an image where its stages run as processes."""


class Pins(Document):
    """The code and the libraries that a run needs to give the same result."""

    commit: str = Field(description="The commit of the pipeline's repository; `unknown` outside a repository.")
    image: str = Field(description="The digest of the stage image, or `process`.")
    python: str
    libraries: dict[str, str]


class RunPlan(Document):
    """A run: every decision before its first stage. Stored at `paths.plan`."""

    run_id: str
    origin: str = Field("", description="The orchestrator's id of the run.")
    kind: RunKind
    spec: PipelineSpec
    bundle: Artifact = Field(description="The pipeline's folder, packed.")
    user_files: dict[str, Sha256] = Field(description="Digests of the folder's Python files.")
    data_date: date
    source_root: str = Field(description="URI below which all source files lie.")
    source: tuple[SourceDay, ...] = Field(description="Every day of the window, oldest first.")
    joins: dict[str, FurtherDays] = Field(default_factory=dict, description="The further sources, by join.")
    as_of: AsOf = Field("now", description="Whether past days are the source as it is now, or as it was then.")
    source_changes: tuple[SourceChange, ...] = Field(
        (), description="What was planned again after the run was planned; `source` is the result."
    )
    promotion: Promotion
    champion: Champion | None = Field(
        description="The reference of the drift check; evaluate finds its baseline later, when there is a candidate."
    )
    parent: Parent | None = Field(
        None, description="The model that training begins with, where train.init is champion."
    )
    fresh: str = Field("", description="Why training begins fresh although train.init is champion.")
    store: str
    tracking_uri: str | None
    pins: Pins
    code: dict[Stage, Sha256] = Field(
        default_factory=dict,
        description="The digest of each stage's code, see `paths.release`; none in plans of before.",
    )
    upgrades: tuple[Upgrade, ...] = Field((), description="How `pins` and `code` were changed since.")
    overrides: dict[str, str] = Field(default_factory=dict)
    started_by: str = Field("", description="The user, as user@host or as Airflow names it; empty for a schedule.")
    rebuild: bool = False
    refused_by: str = Field(
        "", description="The run of this date that refused the rows of its query, which are read again then."
    )
    days: DayStates = Field(
        default_factory=DayStates, description="What became of the earlier days of the window in their own runs."
    )
    chain: str = Field("", description="The chain of dates that a backfill runs, see ratchet.runs.chain.")
    latest: bool = Field(
        default=False, description="Whether it is the last of its chain, which a person lets promote (promote: latest)."
    )
    installation: str = Field("", description="The installation that planned it; no other one runs it.")
    authority: Finding | None = Field(
        None, description="Why ledger and registry allow no decision about production; then the verdict is none."
    )
    production: tuple[str, ...] = Field(
        (), description="What planning repaired in production, found wrong or could not check: a line each."
    )
    created: datetime

    @property
    def listed(self) -> datetime:
        """When the source was listed, of which `source` is the result."""
        return self.source_changes[-1].at if self.source_changes else self.created

    @property
    def reads_another_source(self) -> bool:
        """See `names_another_source`."""
        return names_another_source(self.overrides)


class Input(Document):
    """A result of an earlier stage."""

    manifest: str
    content: Sha256


class StageRequest(Document):
    """The input of `ratchet stage REQUEST`, which a container runs."""

    stage: Stage
    run_id: str
    attempt: str
    spec: PipelineSpec
    bundle: Artifact
    data_date: date
    source_root: str
    source: tuple[SourceDay, ...] = Field((), description="Only for ingest.")
    joins: dict[str, FurtherDays] = Field(default_factory=dict, description="Only for ingest: see RunPlan.")
    listed: datetime | None = Field(None, description="Only for ingest: when the source was listed.")
    another_source: bool = Field(default=False, description="Only for ingest: see RunPlan.reads_another_source.")
    inputs: dict[Stage, Input] = Field(default_factory=dict)
    champion: Champion | None = None
    promotion: Promotion
    kind: RunKind
    store: str
    tracking_uri: str | None = None
    pins: Pins
    upgrades: tuple[Upgrade, ...] = Field((), description="Only for report: see RunPlan.")
    overrides: dict[str, str] = Field(default_factory=dict)
    started_by: str = ""
    accumulation: int = Field(
        1, ge=1, le=MAX_ACCUMULATION, description="Only for train and refit: the number of micro-batches of a step."
    )
    measured_on: str = Field("", description="Only for train and refit: the machine that accumulation was measured on.")
    segments: tuple[Segment, ...] = Field(
        (), description="Only for a reproduction: how the steps of the training were computed that it repeats."
    )
    parent: Parent | None = Field(None, description="Only for train and refit: the model that training begins with.")
    fresh: str = Field("", description="Only for train, refit and report: see RunPlan.")
    as_of: AsOf = Field("now", description="Only for ingest.")
    readers: tuple[Reader, ...] = Field(
        (), description="Only for ingest: what models in production read beside the columns of the pipeline."
    )
    days: DayStates = Field(default_factory=DayStates, description="Only for validate, register and report.")
    repetition: Repetition = Field(default_factory=Repetition, description="Only for evaluate.")
    unmeasured: int = Field(
        0, ge=0, description="Only for evaluate: for how many nights before this one the champion was not measurable."
    )
    approvals: tuple[Answer, ...] = Field(
        (), description="Only for register and report of a run that needs them: every answer of a person, oldest first."
    )
    authority: Finding | None = Field(None, description="Only for evaluate and register: see RunPlan.")
    share: int = Field(
        0,
        ge=0,
        description="The number of a task that makes parts of days alone, for the stage; 0: the stage.",
    )
    fingerprint: Sha256
    parts: dict[str, str] = Field(description="The parts of the fingerprint.")

    @property
    def work_name(self) -> str:
        """The stage, or the share of it."""
        return f"{self.stage}-share{self.share}" if self.share else self.stage

    @property
    def reads_source(self) -> bool:
        """Whether ingest needs the source: some day is not planned to come from the snapshot, nor was missing then."""
        return any(day.held is None and (day.files or self.as_of == "now") for day in self.source)

    @property
    def sources_read(self) -> Iterator[tuple[str, Source, str, tuple[SourceDay, ...]]]:
        """The sources that ingest needs: the name of the join, empty for the main one, and its root and days."""
        if self.stage == "ingest" and self.reads_source:
            yield "", self.spec.source, self.source_root, self.source
        for name, further in self.joins.items():
            if any(day.held is None and (day.files or self.as_of == "now") for day in further.days):
                yield name, self.spec.joins[name].source, further.root, further.days

    @property
    def resume_key(self) -> str:
        """Only for train and refit: what trainings share that may go on from each other's checkpoints."""
        return resume_key(self.parts)

    @property
    def prefix(self) -> str:
        """The prefix below which the stage publishes."""
        return paths.published(self.spec.name, self.stage, self.fingerprint)


class Outcome(Document):
    """How a stage of a run ended. Stored at `paths.outcome`: a cached result does not name the runs that use it."""

    stage: Stage
    state: Literal["done", "skipped", "failed"]
    cached: bool = False
    seconds: float = 0
    manifest: str | None = None
    content: Sha256 | None = None
    because: str = Field("", description="Why the stage was rebuilt, was skipped or failed.")
    last_lines: tuple[str, ...] = Field((), description="The last lines of its log, if a container or a process ran.")
    damaged: bool = Field(default=False, description="Whether it failed on damaged bytes in the store.")
    other_code: bool = Field(default=False, description="Whether it failed as its image has other code than the plan.")
    again: bool = Field(
        default=False, description="Of a stage that failed: whether it waits to be tried again by itself, or is."
    )
    log: str | None = Field(None, description="The key of the log of the last container or process, if it is stored.")
    try_number: int = Field(0, description="The try of the stage that ended so; 0 where its orchestrator counts none.")
    recorded: datetime | None = Field(
        None, description="When, by the store's clock: of the last stage, and of one that is tried again by itself."
    )
    result: StageResult | None = None


UPSTREAM: dict[Stage, tuple[Stage, ...]] = {
    "ingest": (),
    "validate": ("ingest",),
    "features": ("ingest", "validate"),
    "train": ("features",),
    "evaluate": ("ingest", "train"),
    "refit": ("ingest", "features", "train"),
    "register": ("ingest", "train", "evaluate", "refit"),
    "report": STAGES[:-1],
}
"""The stages whose results a stage reads, if the run has them."""
