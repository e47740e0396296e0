"""What a check of a gate found, as plain figures."""

import math
from dataclasses import dataclass
from datetime import date

MANY_ERRORS = 2.0
"""Monte Carlo standard errors above its level from which a rate fails."""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """How often a candidate was promoted that must not be. level: how often it may be."""

    name: str
    meaning: str
    count: int
    nights: int
    level: float

    @property
    def share(self) -> float:
        """Promotions by night."""
        return self.count / self.nights

    @property
    def limit(self) -> float:
        """The level and two standard errors of as many nights."""
        return self.level + MANY_ERRORS * math.sqrt(self.level * (1 - self.level) / self.nights)

    @property
    def failed(self) -> bool:
        """Whether the gate promotes more often than it says."""
        return self.share > self.limit


@dataclass(frozen=True, kw_only=True)
class Point:
    """A true gain, and on which share of the nights it would be promoted."""

    gain: float
    share: float


@dataclass(frozen=True, kw_only=True)
class Power:
    """What the gate sees. visible: the true gain that four nights in five promote, None if none is.

    observed: the gain of the run. spread: the standard error of a night's gain.
    """

    points: tuple[Point, ...]
    visible: float | None
    observed: float
    spread: float
    nights: int

    def at(self, gain: float) -> float:
        """The power at a true gain, between the points on a straight line."""
        before = [point for point in self.points if point.gain <= gain]
        after = [point for point in self.points if point.gain >= gain]
        if not before or not after:
            return (before or after)[-1 if before else 0].share
        low, high = before[-1], after[0]
        if high.gain == low.gain:
            return low.share
        return low.share + (high.share - low.share) * (gain - low.gain) / (high.gain - low.gain)


def titled(column: str, value: str) -> str:
    """A slice in words: a value of a column, or an expression alone."""
    return f"{column}={value}" if value else column


@dataclass(frozen=True, kw_only=True)
class SliceHarm:
    """A slice that truly loses `loss`: how often the gate stopped the candidate for it."""

    column: str
    value: str
    units: int
    loss: float
    times: int
    stopped: int
    nights: int

    @property
    def title(self) -> str:
        """What people call the slice."""
        return titled(self.column, self.value)

    @property
    def share(self) -> float:
        """Stopped nights."""
        return self.stopped / self.nights


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something about these data, by a name that does not change. remedy: what to do, as an imperative."""

    name: str
    text: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class GateCheck:
    """The whole check. power: None where no gain could be planted. untried: scenarios that cannot be run, with why.

    cut: scenarios for which no time was left.
    """

    run_id: str
    day: date
    metric: str
    baseline_kind: str
    confidence: float
    min_gain: float
    units: int
    unit: str
    rates: tuple[Rate, ...]
    power: Power | None
    harms: tuple[SliceHarm, ...]
    findings: tuple[Finding, ...]
    untried: tuple[str, ...]
    cut: tuple[str, ...] = ()
    seconds: float

    @property
    def failed(self) -> tuple[Rate, ...]:
        """The rates that are above their level."""
        return tuple(rate for rate in self.rates if rate.failed)

    @property
    def passed(self) -> bool:
        """Whether every rate keeps its level, both that every gate has to keep were measured, and time cut nothing."""
        names = {rate.name for rate in self.rates}
        return not self.failed and {"exchanged", "at-margin"} <= names and not self.cut
