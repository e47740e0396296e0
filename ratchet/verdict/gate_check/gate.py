"""The gate of a pipeline, as a night would ask it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from ratchet.contracts.gate import LOWER_IS_BETTER, family
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.repetition import Repetition
from ratchet.verdict.comparison import Comparison, compare
from ratchet.verdict.gate_check.pair import Measured, gain
from ratchet.verdict.levels import DEEPEST, stretch


@dataclass(frozen=True, kw_only=True)
class GateKeys:
    """The keys that decide. compare: the method of the interval, `verdict.comparison.compare`."""

    metric: str
    min_gain: float
    confidence: float
    max_slice_loss: float
    seed: int
    compare: Callable[..., Comparison] = compare

    @classmethod
    def of(cls, spec: PipelineSpec) -> Self:
        """Those of a pipeline."""
        return cls(
            metric=spec.metric,
            min_gain=spec.gate.min_gain,
            confidence=spec.gate.confidence,
            max_slice_loss=spec.gate.max_slice_loss,
            seed=spec.train.seed,
        )

    @property
    def level(self) -> float:
        """How often a candidate may be promoted that is no better than the margin."""
        return 1 - self.confidence

    def comparison(self, measured: Measured, confidence: float | None = None) -> Comparison:
        """The comparison that evaluate makes. confidence: that of the gate, or of one attempt of several."""
        level = self.confidence if confidence is None else confidence
        lower = family(self.metric) in LOWER_IS_BETTER
        shown = min(level, DEEPEST)
        return stretch(self.compare(*measured, lower_is_better=lower, confidence=shown, seed=self.seed), level)

    def of_attempt(self, number: int) -> float:
        """The confidence that an attempt at a held-out day needs, the first one with number 1."""
        return Repetition(number=number).level(self.confidence)

    def promotes(self, measured: Measured | None, confidence: float | None = None) -> bool:
        """Whether the gate would promote, whatever the slices say.

        A bound is never above its gain, so that a gain below the margin needs no interval.
        """
        if measured is None or gain(measured, self.metric) <= self.min_gain:
            return False
        compared = self.comparison(measured, confidence)
        return compared.measurable and compared.gain.low > self.min_gain
