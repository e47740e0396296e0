"""What a stage that failed is told beyond its error: where its log is, and what the next try does otherwise."""

from ratchet.contracts.errors import OutOfMemory, RatchetError
from ratchet.contracts.stages import TRAININGS
from ratchet.runs.accumulation import remember_out_of_memory
from ratchet.runs.work import Work
from ratchet.store.address import address

_THE_LOG = "the log"
"""The end of a remedy that sends a person to the log of the stage."""


def with_remedy(work: Work, error: RatchetError) -> RatchetError:
    """A training that ran out of memory computes with more micro-batches next time."""
    if isinstance(error, OutOfMemory) and work.request.stage in TRAININGS:
        return remember_out_of_memory(work.store, work.plan, error, used=work.request.accumulation)
    return error


def with_log(work: Work, error: RatchetError, log: str | None) -> RatchetError:
    """The error with the address of the log, also in a remedy that ends with `the log`. log: its key, if it has one."""
    if log is not None:
        error.log = address(work.store, log)
        if error.remedy.endswith(_THE_LOG):
            error.remedy += f" {error.log}"
    return error
