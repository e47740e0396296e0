"""Comparisons at a confidence that a thousand resamples cannot show, as the later attempts at a day need it.

A change here violates the promise of the project when a late attempt gets a bound that is closer than its level allows.
"""

import math
from dataclasses import replace
from statistics import NormalDist

from ratchet.contracts.judgements import Interval
from ratchet.metrics.metrics import Measurement
from ratchet.verdict.comparison import MIN_UNITS, UNSEEN, Comparison, compare

DEEPEST = 0.99
"""The confidence up to which the draws show a bound; beyond it too few of them are left in the tail."""
_NORMAL = NormalDist()


def compare_at(
    candidate: Measurement, baseline: Measurement, *, lower_is_better: bool, level: float, seed: int
) -> Comparison:
    """Candidate against baseline with bounds at a level.

    Beyond DEEPEST the distance between the gain and each bound is that at DEEPEST, stretched as the quantiles of a
    normal distribution are: the skew stays, and the tail is taken for a normal one.
    """
    shown = min(level, DEEPEST)
    return stretch(compare(candidate, baseline, lower_is_better=lower_is_better, confidence=shown, seed=seed), level)


def stretch(found: Comparison, level: float) -> Comparison:
    """A comparison that was made at a level, at most DEEPEST, with the bounds and the units that the level asks for."""
    if level <= DEEPEST:
        return found
    gain, factor = found.gain, _NORMAL.inv_cdf(level) / _NORMAL.inv_cdf(DEEPEST)
    low, high = (round(gain.value + factor * (bound - gain.value), 10) for bound in (gain.low, gain.high))
    unseen = math.ceil(math.log1p(-level) / math.log1p(-UNSEEN)) if found.required > MIN_UNITS else 0
    return replace(
        found,
        gain=Interval(value=gain.value, low=low, high=high),
        confidence=level,
        required=max(found.required, unseen),
    )
