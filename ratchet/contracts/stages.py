"""The stages of a run, what each may use, and how its failures are handled."""

from typing import Literal

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.contracts.quantities import Duration, Memory

Stage = Literal["ingest", "validate", "features", "train", "evaluate", "register", "report"]
STAGES: tuple[Stage, ...] = ("ingest", "validate", "features", "train", "evaluate", "register", "report")


def stage_module(stage: Stage) -> str:
    """The module that runs a stage. The library does not import the stages; it knows this name of theirs alone."""
    return f"tasks.{stage}.stage"


class Resources(Document):
    """What a stage's container may use."""

    gpus: int = Field(0, ge=0, le=64, description="Devices.")
    cpus: float = Field(2, gt=0, le=1024, description="A quota, in cores.")
    memory: Memory = Field(4 << 30, description="A hard limit; what needs more ends as out of memory.")
    shm: Memory = Field(256 << 20, description="Of /dev/shm.")
    pids: int = Field(512, ge=16, le=65_536, description="Processes and threads.")


class StageSettings(Document):
    """How a stage's failures are handled."""

    retries: int = Field(2, ge=0, le=100, description="Tries after the first.")
    retry_delay: Duration = Field(30, description="Before the first retry; it grows from there.")
    timeout: Duration = Field(3600, description="Of one try.")
    grace: Duration = Field(30, description="Seconds between the notice to stop and the kill.")


DEFAULT_SETTINGS: dict[Stage, StageSettings] = {
    "ingest": StageSettings(),
    "validate": StageSettings(),
    "features": StageSettings(),
    "train": StageSettings.model_validate({"retries": 3, "timeout": "12h", "grace": "2m"}),
    "evaluate": StageSettings(),
    "register": StageSettings(retries=5),
    "report": StageSettings(),
}
