"""The gate of a pipeline, as a night would ask it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from ratchet.contracts.gate import lower_is_better
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.repetition import Repetition
from ratchet.verdict.comparison import RESAMPLES, Comparison, compare
from ratchet.verdict.gate_check.pair import Measured, gain
from ratchet.verdict.levels import DEEPEST, stretch

_FEW = 20
"""Resamples of a slice whose bounds decide nothing."""


@dataclass(frozen=True, kw_only=True)
class GateKeys:
    """The keys that decide.

    nights: how many nights share a held-out day, and its error with it. unproven_slices: `block` or `warn`. compare:
    the method of the interval, `verdict.comparison.compare`.
    """

    metric: str
    min_gain: float
    confidence: float
    max_slice_loss: float
    seed: int
    nights: int = 1
    unproven_slices: str = "warn"
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
            nights=spec.evaluate.holdout_days,
            unproven_slices=spec.gate.unproven_slices,
        )

    @property
    def level(self) -> float:
        """How often a night, with all its attempts, may promote a candidate that is no better than the margin."""
        return (1 - self.confidence) / self.nights

    def comparison(self, measured: Measured, confidence: float | None = None) -> Comparison:
        """The comparison that evaluate makes. confidence: of one attempt of several; that of the first one if None."""
        level = self.of_attempt(1) if confidence is None else confidence
        return stretch(self._compared(measured, min(level, DEEPEST), RESAMPLES), level)

    def of_slice(self, measured: Measured) -> Comparison:
        """The comparison that evaluate makes of a slice.

        A slice fails by its p-values, which rest on no resample; all of them are drawn only where a slice that is not
        proven withholds the candidate too.
        """
        resamples = RESAMPLES if self.unproven_slices == "block" else _FEW
        return self._compared(measured, self.confidence, resamples)

    def _compared(self, measured: Measured, confidence: float, resamples: int) -> Comparison:
        lower = lower_is_better(self.metric)
        return self.compare(
            *measured, lower_is_better=lower, confidence=confidence, seed=self.seed, resamples=resamples
        )

    def of_attempt(self, number: int) -> float:
        """The confidence that an attempt at a held-out day needs, the first one with number 1."""
        return Repetition(number=number, nights=self.nights).level(self.confidence)

    def promotes(self, measured: Measured | None, confidence: float | None = None) -> bool:
        """Whether the gate would promote, whatever the slices say.

        A bound is never above its gain, so that a gain below the margin needs no interval.
        """
        if measured is None or gain(measured, self.metric) <= self.min_gain:
            return False
        compared = self.comparison(measured, confidence)
        return compared.measurable and compared.gain.low > self.min_gain
