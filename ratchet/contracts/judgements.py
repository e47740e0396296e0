"""The parts of a judgement: intervals, and what was found out about slices, guard rails and service."""

from typing import Any, Literal

from pydantic import Field, model_validator

from ratchet.contracts.document import Document

Verdict = Literal["promote", "reject", "inconclusive"]
TOO_SLOW = "too-slow"
"""The reason that says that the candidate, asked as a service asks, missed its limit of time."""
UNMEASURABLE = frozenset({"baseline-missing", "baseline-unreadable", "champion-unmeasurable"})
"""The reasons that say that the champion could not be measured; the last, that this has gone on for too long."""


class Interval(Document):
    """A value and its confidence bounds, each one-sided with the gate's confidence."""

    value: float
    low: float
    high: float


Proof = Literal["passed", "failed", "not-provable"]
"""Whether a guard rail is surely kept, surely broken, or neither. What could not be measured is not provable."""


class SliceJudgement(Document):
    """One slice. column: of a slice by an expression, the expression, and value is empty."""

    column: str
    value: str
    rows: int
    candidate: float | None = Field(description="None if the slice has no value, for example without a positive label.")
    baseline: float | None
    gain: Interval | None = Field(description="The relative gain.")
    outcome: Proof

    @model_validator(mode="before")
    @classmethod
    def _of_before(cls, given: Any) -> Any:
        """Read documents of before, which said of what could not be measured that it had passed."""
        if not isinstance(given, dict) or "passed" not in given:
            return given
        rest = {name: value for name, value in given.items() if name != "passed"}
        unmeasured = given["passed"] and given.get("gain") is None
        return {**rest, "outcome": "not-provable" if unmeasured else "passed" if given["passed"] else "failed"}

    @property
    def name(self) -> str:
        """The slice in a few words."""
        return f"{self.column}={self.value}" if self.value else self.column


class GuardJudgement(Document):
    """A guard rail beside the metric that decides: another metric, a floor, the latency or the size."""

    kind: Literal["metric", "floor", "latency", "size"]
    name: str = Field(description="The metric; latency or size.")
    candidate: float | None
    baseline: float | None = Field(None, description="The champion's value; None for a floor.")
    limit: float = Field(
        description="The largest relative loss; of a floor the worst value, of latency and size the largest ratio."
    )
    found: Interval | None = Field(
        None, description="The relative gain; of a floor, over it; of latency and size, the ratio to the champion's."
    )
    outcome: Proof


class Service(Document):
    """How the candidate answers when it is asked as a service asks it, before it can become a version."""

    rows: int
    unit: Literal["row", "group"] = Field(description="What is asked for at once.")
    latency_ms: float = Field(description="Milliseconds for a unit, the 99th percentile.")
    memory: int | None = Field(None, description="Bytes of its process at most; None where the system does not say.")
