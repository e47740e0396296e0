"""The stages of a run, with their resources, retries and time limits."""

from typing import Literal

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.contracts.quantities import Duration, Memory

Stage = Literal["ingest", "validate", "features", "train", "evaluate", "register", "report"]
STAGES: tuple[Stage, ...] = ("ingest", "validate", "features", "train", "evaluate", "register", "report")


def stage_module(stage: Stage) -> str:
    """The module that runs a stage. The library knows this name, and imports no stage."""
    return f"tasks.{stage}.stage"


class Resources(Document):
    """The resources of a stage's container."""

    gpus: int = Field(0, ge=0, le=64, description="Number of GPUs. Training uses one.")
    cpus: float = Field(2, gt=0, le=1024, description="The CPU quota, in cores.")
    memory: Memory = Field(4 << 30, description="A hard limit. A stage that needs more fails as out of memory.")
    shm: Memory = Field(256 << 20, description="The size of /dev/shm.")
    pids: int = Field(512, ge=16, le=65_536, description="The largest number of processes and threads.")


class StageSettings(Document):
    """Retries and time limits of a stage."""

    retries: int = Field(2, ge=0, le=100, description="The largest number of retries of a failed stage.")
    retry_delay: Duration = Field(30, description="The wait before the first retry. It grows with each retry.")
    timeout: Duration = Field(3600, description="The time limit of one attempt.")
    grace: Duration = Field(30, description="The time between the notice to stop (SIGTERM) and the kill.")


DEFAULT_SETTINGS: dict[Stage, StageSettings] = {
    "ingest": StageSettings(),
    "validate": StageSettings(),
    "features": StageSettings(),
    "train": StageSettings.model_validate({"retries": 3, "timeout": "12h", "grace": "2m"}),
    "evaluate": StageSettings(),
    "register": StageSettings(retries=5),
    "report": StageSettings(),
}
