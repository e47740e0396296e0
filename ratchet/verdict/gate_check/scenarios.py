"""What is tried on each simulated night, and what is seen of it."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ratchet.verdict.gate_check.draws import Draws
from ratchet.verdict.gate_check.gate import GateKeys
from ratchet.verdict.gate_check.pair import Pair, ScoredPair, gain

ATTEMPTS = (2, 5, 20)
"""After how many runs of one night it is counted whether any of them was promoted."""


class Scenario(Protocol):
    """A way to make a night."""

    def night(self, generator: np.random.Generator) -> tuple[float, ...]:
        """What is seen of one night, as numbers."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Exchange:
    """Candidate and baseline change places at random: neither is better. Seen: 1 if it is promoted."""

    pair: Pair
    draws: Draws
    gate: GateKeys

    def night(self, generator: np.random.Generator) -> tuple[float, ...]:
        """Whether the gate promotes."""
        night = self.draws.draw(generator)
        coin = night.coin(generator)
        return (float(self.gate.promotes(self.pair.measure(night, theirs=coin, ours=coin))),)


@dataclass(frozen=True, kw_only=True, eq=False)
class AtMargin:
    """A candidate that is better by exactly the margin. pair: planted so. Seen: 1 if it is promoted."""

    pair: Pair
    draws: Draws
    gate: GateKeys

    def night(self, generator: np.random.Generator) -> tuple[float, ...]:
        """Whether the gate promotes."""
        return (float(self.gate.promotes(self.pair.measure(self.draws.draw(generator)))),)


@dataclass(frozen=True, kw_only=True, eq=False)
class Planted:
    """Candidates with a true gain of the margin, and of `far`, on the same night.

    Seen: 1 if the one at the margin is promoted; the true gain from which this night would have promoted, which is on
    the line through the lower bounds of both, infinite on a night that decides nothing.
    """

    at_margin: Pair
    at_far: Pair
    far: float
    draws: Draws
    gate: GateKeys

    def night(self, generator: np.random.Generator) -> tuple[float, ...]:
        """Whether the gate promotes, and from which true gain."""
        night, margin = self.draws.draw(generator), self.gate.min_gain
        near, far = self.at_margin.measure(night), self.at_far.measure(night)
        if near is None or far is None:
            return 0.0, math.inf
        first, second = self.gate.comparison(near), self.gate.comparison(far)
        if not (first.measurable and second.measurable):
            return 0.0, math.inf
        low, high = first.gain.low, second.gain.low
        if high <= low:
            return float(low > margin), math.inf
        return float(low > margin), margin + (margin - low) * (self.far - margin) / (high - low)


@dataclass(frozen=True, kw_only=True, eq=False)
class Repeat:
    """One night is run again and again, each time with another candidate that is as good as production.

    Candidates and production are exchangeable: each unit of each has the value of one of the two models by a coin of
    its own. Two candidates thus share half of the variance of their gains, as two trainings against one production do.
    pair: widened, so that the gains vary as those of the run. confidences: of each attempt. Seen: the number of the
    first attempt that is promoted, infinite if none is.
    """

    pair: Pair
    draws: Draws
    gate: GateKeys
    confidences: tuple[float, ...]

    def night(self, generator: np.random.Generator) -> tuple[float, ...]:
        """The first attempt that the gate promotes."""
        night = self.draws.draw(generator)
        production = night.coin(generator)
        for attempt, confidence in enumerate(self.confidences, start=1):
            measured = self.pair.measure(night, theirs=night.coin(generator), ours=production)
            if self.gate.promotes(measured, confidence):
                return (float(attempt),)
        return (math.inf,)


_NIGHTS, _LEAST, _ROWS = 200, 40, 20_000_000
"""Nights of a spread; fewer where that many rows would have to be measured again and again."""


def spread_of(pair: Pair, draws: Draws, *, seed: int) -> float:
    """The standard error of a night's gain, from its quartiles, which a few wild nights do not move."""
    rows = len(pair.rows.label) if isinstance(pair, ScoredPair) else 1
    nights = min(_NIGHTS, max(_LEAST, _ROWS // rows))
    generator = np.random.default_rng(seed)
    measured = (pair.measure(draws.draw(generator)) for _ in range(nights))
    gains = [gain(one, pair.metric) for one in measured if one is not None]
    if len(gains) < nights / 2:
        return math.nan
    low, high = np.quantile(gains, (0.25, 0.75))
    return float(high - low) / _QUARTILES


_QUARTILES = 1.349
"""The distance of the quartiles of a normal distribution, in standard deviations."""
