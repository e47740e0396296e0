"""Micro-batches of a training that ran out of memory or measured them, and which of its steps were computed how."""

from typing import Literal

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.contracts.step_rows import MAX_ACCUMULATION


class Accumulation(Document):
    """The micro-batches that later runs start with: of a training that ran out of memory, or that measured them."""

    accumulation: int = Field(ge=1, le=MAX_ACCUMULATION, description="The number of micro-batches of a step.")
    run_id: str = Field(description="The run that ran out of memory with half as many micro-batches, or measured.")
    machine: str = Field("", description="The device and versions of a measurement. On another one it is repeated.")


class Measurement(Document):
    """How a training chose its micro-batches."""

    by: Literal["memory", "time"]
    accumulation: int = Field(ge=1, le=MAX_ACCUMULATION, description="The chosen number.")
    machine: str = Field(description="The device and the versions of torch and of the code.")
    figures: dict[int, float | None] = Field(
        description="By number of micro-batches, seconds of a step or shares of the limit of memory; None: did not fit."
    )


class Segment(Document):
    """Steps of a training in a row that were computed in one way. A training that goes on elsewhere has several."""

    begin: int = Field(ge=0, description="The completed steps at its begin.")
    accumulation: int = Field(ge=1, le=MAX_ACCUMULATION, description="The number of micro-batches of a step.")
    device: str = Field(description="The kind of device, as torch names it: cpu, cuda.")
    threads: int = Field(
        ge=1, description="The threads of the CPU, of each process; how a sum is split over them decides its bits."
    )
    shards: int = Field(1, ge=1, description="The parts of a step that processes compute apart.")
    precision: str = Field("fp32", description="What the layers multiply in: fp32, tf32, bf16, fp16.")
    tables: Literal["whole", "sharded"] = Field("whole", description="What each process has of large tables.")
