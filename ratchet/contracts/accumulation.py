"""The accumulation of a training that ran out of memory: a step is taken in micro-batches."""

from pydantic import Field

from ratchet.contracts.document import Document

MAX_ACCUMULATION = 64
"""The largest number of micro-batches of a step. If it is not enough, the size of the batch is not the problem."""


class Accumulation(Document):
    """The micro-batches of a training after it ran out of memory. Later runs that need as much start with them."""

    accumulation: int = Field(ge=1, le=MAX_ACCUMULATION, description="The number of micro-batches of a step.")
    run_id: str = Field(description="The run that ran out of memory with half as many micro-batches.")
