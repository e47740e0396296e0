"""Comparisons at a confidence that a thousand resamples cannot show, as the later attempts at a day need it.

A change here violates the promise of the project when a late attempt gets a bound that is closer than its level allows.
"""

from dataclasses import replace
from statistics import NormalDist

from ratchet.contracts.judgements import Interval
from ratchet.metrics.metrics import Measurement
from ratchet.verdict.comparison import Comparison, compare

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
    found = compare(candidate, baseline, lower_is_better=lower_is_better, confidence=level, seed=seed)
    return stretch(found, level)


def stretch(found: Comparison, level: float) -> Comparison:
    """A comparison that was made at a level, with bounds that the level asks for."""
    if level <= DEEPEST:
        return found
    gain, shown, factor = found.gain, found.bounds_at(DEEPEST), _NORMAL.inv_cdf(level) / _NORMAL.inv_cdf(DEEPEST)
    low, high = (gain.value + factor * (bound - gain.value) for bound in (shown.low, shown.high))
    stretched = Interval(value=gain.value, low=round(min(low, gain.low), 10), high=round(max(high, gain.high), 10))
    return replace(found, gain=stretched)
