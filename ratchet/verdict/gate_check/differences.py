"""How much each unit says about the gain: the shape of these differences decides what an interval is worth."""

import math
from dataclasses import replace

import numpy as np

from ratchet.contracts.gate import family, lower_is_better
from ratchet.metrics.metrics import Floats
from ratchet.verdict.comparison import parts_of_gain
from ratchet.verdict.gate_check.draws import Draws
from ratchet.verdict.gate_check.pair import Pair, ScoredPair

_SHUFFLES = 100
_SIDES = 2  # a skew takes more values than that
_CLEAR = 4.0
"""Standard deviations of the shuffled design effects above which a design effect is no chance."""


def differences(pair: Pair) -> Floats | None:
    """What each unit adds to the gain [units], centred, up to a factor; None where it is not a sum over units."""
    if isinstance(pair, ScoredPair) and family(pair.metric) == "pr_auc":
        # Its sums are of blocks of units where there are many; what a unit adds to the other area is much the same.
        pair = replace(pair, metric="auc")
    measured = pair.whole
    if measured is None:
        return None
    found = parts_of_gain(*measured, lower_is_better=lower_is_better(pair.metric))
    return found if len(found) == pair.units else None


def skew_error(values: Floats) -> float:
    """How far skew alone moves the error of a one-sided interval at 95 %, as a probability; positive: too many errors.

    The first term of Edgeworth's expansion of Student's t (Hall 1992, The bootstrap and Edgeworth expansion, 2.3).
    """
    spread = values.std()
    if spread == 0 or len(values) <= _SIDES:
        return 0.0
    skew = float(np.mean(((values - values.mean()) / spread) ** 3))
    z = 1.645
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return -skew / math.sqrt(len(values)) * (2 * z * z + 1) / 6 * density


def kurtosis(values: Floats) -> float:
    """The fourth moment over the square of the variance; 3 for a normal distribution."""
    spread = values.std()
    return float(np.mean(((values - values.mean()) / spread) ** 4)) if spread else 0.0


def design_effect(values: Floats, clusters: Draws, seed: int) -> float | None:
    """The variance of the gain over that with independent units; None where chance explains it.

    It is compared with those of the same values in a random order (Kish 1965 for the effect itself).
    """
    centred = values - values.mean()
    squares = float(np.square(centred).sum())
    if not squares:
        return None
    starts = clusters.offsets[:-1]

    def effect(given: Floats) -> float:
        return float(np.square(np.add.reduceat(given[clusters.order], starts)).sum()) / squares

    generator = np.random.default_rng(seed)
    shuffled = np.array([effect(generator.permutation(centred)) for _ in range(_SHUFFLES)])
    found = effect(centred)
    return found if found > shuffled.mean() + _CLEAR * shuffled.std() else None
