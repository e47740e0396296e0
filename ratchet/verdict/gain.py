"""What a candidate gains over a baseline: relative to it, and absolute where that is nothing to be relative to."""

import numpy as np
from numpy.typing import NDArray

from ratchet.metrics.rows import Floats

_NOTHING = 1e-12
"""The share of the larger value up to which the smaller one is rounding: a sum of float64 keeps some 16 digits, and of
millions of terms that cancel twelve or more. No gain over a baseline is twelve orders of magnitude."""


def relative_gain(candidate: Floats, baseline: Floats, *, lower_is_better: bool) -> Floats:
    """Gain relative to the baseline, absolute over a baseline of nothing; positive is better, whatever the metric."""
    gain = absolute_gain(candidate, baseline, lower_is_better=lower_is_better)
    return np.asarray(gain / measure_of(candidate, baseline))


def measure_of(candidate: Floats, baseline: Floats) -> Floats:
    """What a gain is divided by: the size of the baseline, or 1 where the gain is absolute."""
    return np.where(is_nothing(candidate, baseline), 1.0, np.abs(baseline))


def absolute_gain(candidate: Floats, baseline: Floats, *, lower_is_better: bool) -> Floats:
    """Gain in the metric's own unit; positive is better, whatever the metric."""
    return np.asarray(baseline - candidate if lower_is_better else candidate - baseline)


def is_nothing(candidate: Floats, baseline: Floats) -> NDArray[np.bool_]:
    """Whether a baseline is 0, or what rounding has left of 0 beside the candidate."""
    return np.asarray(np.abs(baseline) <= _NOTHING * np.maximum(np.abs(candidate), np.abs(baseline)))
