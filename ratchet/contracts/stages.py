"""The stages of a run, with their resources, retries and time limits."""

from typing import Literal, get_args

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.contracts.quantities import Duration, Memory

RegularStage = Literal["ingest", "validate", "features", "train", "evaluate", "register", "report"]
"""The stages of every run. Each has keys of its own in the pipeline file."""
Stage = RegularStage | Literal["refit"]
STAGES: tuple[Stage, ...] = ("ingest", "validate", "features", "train", "evaluate", "refit", "register", "report")
"""All stages, in order. Those of a pipeline are in `PipelineSpec.sequence`."""
REGULAR: tuple[RegularStage, ...] = get_args(RegularStage)
BY_DAY: frozenset[Stage] = frozenset({"ingest", "validate", "features"})
"""The stages that make a part of each day of the window."""
TRAININGS: frozenset[Stage] = frozenset({"train", "refit"})
"""The stages that save their state when they are stopped, and that compute with fewer rows at once where memory is
short."""


def stage_module(stage: Stage) -> str:
    """The module that runs a stage. The library knows this name, and imports no stage."""
    return "tasks.train.refit" if stage == "refit" else f"tasks.{stage}.stage"


def section(stage: Stage) -> RegularStage:
    """The name under which a pipeline file has the resources and limits of a stage."""
    return "train" if stage == "refit" else stage


class Resources(Document):
    """The resources of a stage's container."""

    gpus: int = Field(
        0, ge=0, le=64, description="Number of GPUs, 0 or a power of two. Training has a process for each."
    )
    processes: int = Field(
        1,
        ge=1,
        le=64,
        description="Training without GPUs: the processes that compute each step together, a power of two. They share "
        "the cores.",
    )
    tasks: int = Field(
        1,
        ge=1,
        le=64,
        description="ingest, validate and features: the Airflow tasks, on whatever workers, that share the days of a "
        "window which are new to the stage, as those of a first run. The other tasks than the stage's own end at once "
        "where no day is left to them. `ratchet run`, and ingest with joins, has one.",
    )
    cpus: float = Field(2, gt=0, le=1024, description="The CPU quota, in cores.")
    memory: Memory = Field(4 << 30, description="A hard limit. A stage that needs more fails as out of memory.")
    shm: Memory = Field(256 << 20, description="The size of /dev/shm.")
    pids: int = Field(512, ge=16, le=65_536, description="The largest number of processes and threads.")

    @property
    def ranks(self) -> int:
        """The processes of a training."""
        return max(self.gpus, self.processes)


_OUTAGE_S = 4 * 3600


class StageSettings(Document):
    """Retries and time limits of a stage."""

    retries: int = Field(
        2,
        ge=0,
        le=100,
        description="The largest number of retries of a failed stage. What does not answer (exit code 69) is waited "
        "for before they count: for the time limit of one attempt, and at least 4 hours; with 0 for no time.",
    )
    retry_delay: Duration = Field(30, description="The wait before the first retry. It grows with each retry.")
    timeout: Duration = Field(3600, description="The time limit of one attempt.")
    grace: Duration = Field(30, description="The time between the notice to stop (SIGTERM) and the kill.")

    @property
    def outage_s(self) -> float:
        """For how many seconds the stage waits for what does not answer, in all."""
        return self.other_host_s if self.retries else 0.0

    @property
    def other_host_s(self) -> float:
        """For how many seconds the stage waits for a worker of another host, which is no retry."""
        return max(self.timeout, _OUTAGE_S)


DEFAULT_SETTINGS: dict[RegularStage, StageSettings] = {
    "ingest": StageSettings(),
    "validate": StageSettings(),
    "features": StageSettings(),
    "train": StageSettings.model_validate({"retries": 3, "timeout": "12h", "grace": "2m"}),
    "evaluate": StageSettings(),
    "register": StageSettings(retries=5),
    "report": StageSettings(),
}
