"""How like a version its rebuild from the record is, and the exit codes that say it."""

from datetime import datetime
from enum import IntEnum
from typing import Literal

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.contracts.stages import Stage

PART = "reproduction"
"""The part of a fingerprint that gives a rebuild results of its own, so that nothing published is replaced."""
TOLERANCE = 1e-3
"""The largest relative difference at which a rebuild is within tolerance, unless a person sets another one."""
Likeness = Literal["bit-equal", "within-tolerance", "diverged", "not-rebuilt"]


class ReproductionCode(IntEnum):
    """The exit codes of `ratchet reproduce` beside those of `ExitCode`, which keep their meaning.

    66 is EX_NOINPUT of BSD's sysexits.h: an input does not exist, or cannot be read.
    """

    BIT_EQUAL = 0
    WITHIN_TOLERANCE = 1
    DIVERGED = 3
    INGREDIENT_GONE = 66


CODES: dict[Likeness, ReproductionCode] = {
    "bit-equal": ReproductionCode.BIT_EQUAL,
    "within-tolerance": ReproductionCode.WITHIN_TOLERANCE,
    "diverged": ReproductionCode.DIVERGED,
    "not-rebuilt": ReproductionCode.INGREDIENT_GONE,
}


class RebuiltParent(Document):
    """A version that was built again before one that began with it."""

    version: str
    likeness: Likeness
    run_id: str


class Reproduction(Document):
    """A rebuild of a version. Stored with its run. The differences are relative, None where they cannot be measured."""

    model: str
    version: str
    run_id: str = Field(description="The run of the rebuild.")
    likeness: Likeness
    gone: tuple[str, ...] = Field((), description="Ingredients that do not exist any more, or are damaged.")
    differs: tuple[str, ...] = Field(
        (), description="Ingredients that are not what they were: code, libraries, device."
    )
    parents: tuple[RebuiltParent, ...] = Field((), description="What was built again before it, the oldest first.")
    weights_differ: float | None = Field(None, description="The largest difference of a tensor, by its largest value.")
    scores_differ: float | None = Field(None, description="The largest difference of a score, by the largest score.")
    metric_differs: float | None = Field(None, description="Of the pipeline's metric on the held-out days.")
    arrays_differ: str = Field("", description="The first encoded array with other bytes, if there is one.")
    training: Stage | None = Field(None, description="The first training with other weights: train, or refit.")
    first_step: int | None = Field(
        None, description="The first step, from 1, whose loss or gradient has other bits; earlier weights may differ."
    )
    steps: int | None = Field(None, description="The steps of that training, as it is recorded.")
    tolerance: float
    started_by: str
    finished: datetime

    @property
    def code(self) -> ReproductionCode:
        """The exit code."""
        return CODES[self.likeness]
