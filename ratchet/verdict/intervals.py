"""Bounds of a relative gain at any confidence, from the same draws.

A change here violates the promise of the project when a candidate that is no better than the margin is promoted more
often than 1 - confidence.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ratchet.metrics.rows import Floats
from ratchet.verdict.student import NORMAL, expanded_tail

_DRAWS_IN_TAIL = 20


class Bounds(Protocol):
    """One-sided bounds at each confidence."""

    def at(self, confidence: float) -> tuple[float, float]:
        """The lower and the upper bound of the gain, each one-sided with this confidence."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Percentiles:
    """Percentiles of the gain itself, for metrics in which no unit can outweigh the others.

    value: the gain. draws: that of each resample, in rising order. units: that the draws vary like; with few of them
    the bounds are moved outward as Student's t asks for.
    """

    value: float
    draws: Floats
    units: float

    def at(self, confidence: float) -> tuple[float, float]:
        """See Bounds."""
        tail = expanded_tail(1 - confidence, self.units)
        return min(quantile(self.draws, tail), self.value), max(quantile(self.draws, 1 - tail), self.value)


@dataclass(frozen=True, kw_only=True, eq=False)
class Studentised:
    """Bounds of the logarithm of a ratio from its studentised draws (bootstrap-t; Hall 1988, Efron 1981).

    A sample of a skewed loss that lacks large losses has a small mean and a small spread at once; the draws of
    (resample - value) / spread of the resample have that in them, those of the mean alone do not.

    No draw has what the sample lacks altogether. Of a kind of unit that was not seen, -ln(1 - confidence) are expected
    at most (the rule of three; Hanley and Lippman-Hand 1983). So a bound is computed as if so many more units had been
    observed, each as far on its side as the one that is furthest from the mean (as adjusted empirical likelihood adds a
    unit; Chen, Variyath and Abraham 2008).

    value: of the logarithm, positive where the candidate is better. spread: its standard error. furthest: the largest
    part of a unit in it. draws: studentised, in rising order. logarithm: of a loss; if not, `value` is the gain itself.
    """

    value: float
    spread: float
    furthest: float
    draws: Floats
    logarithm: bool

    def at(self, confidence: float) -> tuple[float, float]:
        """See Bounds."""
        unseen = -math.log1p(-confidence)
        spread = math.hypot(self.spread, math.sqrt(unseen) * self.furthest)
        low = self.value - unseen * self.furthest - max(quantile(self.draws, confidence), 0.0) * spread
        high = self.value + unseen * self.furthest - min(quantile(self.draws, 1 - confidence), 0.0) * spread
        return self.gain(low), self.gain(high)

    def gain(self, value: float) -> float:
        """The relative gain that belongs to a value."""
        return -math.expm1(min(-value, 700.0)) if self.logarithm else value


@dataclass(frozen=True, kw_only=True, eq=False)
class Denoised:
    """Bounds of the gain of a distance, to which noise only adds (Kumar, Liang and Ma 2019, on calibration errors).

    A model with many bins has more of it than one with few, so that the latter looks better. The lower bound is that
    with the baseline's noise taken away and the candidate's left, the upper one the other way round.

    baseline, candidate: the share of noise in each value at most, below 1.
    """

    bounds: Bounds
    baseline: float
    candidate: float

    def at(self, confidence: float) -> tuple[float, float]:
        """See Bounds."""
        low, high = self.bounds.at(confidence)
        return 1 - (1 - low) / (1 - self.baseline), 1 - (1 - high) * (1 - self.candidate)


def quantile(draws: Floats, share: float) -> float:
    """The quantile of draws in rising order; beyond the outermost twenty of them, of a normal tail through these."""
    outermost = min(_DRAWS_IN_TAIL / len(draws), 0.25)
    if outermost <= share <= 1 - outermost:
        return float(np.interp(share * (len(draws) - 1), np.arange(len(draws)), draws))
    inner = outermost if share < outermost else 1 - outermost
    middle, last = quantile(draws, 0.5), quantile(draws, inner)
    return middle + (last - middle) * NORMAL.inv_cdf(share) / NORMAL.inv_cdf(inner)
