"""Worlds of nights in which two unequal models have a known true gain.

The candidate is a little better on most units and much worse on a few. Its advantage on the many is chosen so that its
true gain is exactly the one that is asked for: in closed form for the errors, else by quadrature (`benchmarks.truth`).
A unit is a cluster of rows, or of groups, with 1 to 2m - 1 members, each number as often; m is 1 without clusters.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from benchmarks import truth
from benchmarks.units import cluster, members, within, words
from ratchet.metrics.metrics import Floats, Rows

Generator = np.random.Generator

_OVER, _TAIL = 3.0, 0.04
"""Errors of the candidate are thrice as large on 4 % of the units."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Night:
    """Scores on the same rows: of the candidates [tries, rows], each with the same true gain, and of the baseline."""

    rows: Rows
    candidates: Floats
    baseline: Floats


class World(Protocol):
    """Where nights come from."""

    @property
    def metric(self) -> str:
        """The metric that decides."""
        ...

    @property
    def gain(self) -> float:
        """The true relative gain of each candidate."""
        ...

    @property
    def place(self) -> str:
        """What it is, for a table."""
        ...

    def night(self, generator: Generator, tries: int = 1) -> Night:
        """Draw a night."""
        ...


@dataclass(frozen=True, kw_only=True)
class Errors:
    """A regression: labels are log-normal with the deviation `skew`, and errors grow with them. rmse or mae."""

    metric: str
    units: int
    skew: float
    size: int
    gain: float

    @property
    def place(self) -> str:
        """See World."""
        return f"skew {self.skew:g}, {self.units} units{words(self.size)}"

    @cached_property
    def scale(self) -> float:
        """The candidate's errors on most units, over the baseline's."""
        power = 2 if self.metric == "rmse" else 1
        return float(((1 - _TAIL * _OVER**power) / (1 - _TAIL)) ** (1 / power))

    def night(self, generator: Generator, tries: int = 1) -> Night:
        """See World."""
        unit = members(generator, self.units, self.size)
        label = np.exp(self.skew * generator.normal(size=self.units))[unit]
        noise = within(generator, unit, self.units)
        bad = generator.random((tries, self.units)) < _TAIL
        scale = np.where(bad, _OVER, self.scale)[:, unit] * (1 - self.gain)
        ours = 0.8 * noise + 0.6 * generator.normal(size=(tries, len(unit)))
        return Night(
            rows=Rows(label=label, offsets=None, cluster=cluster(unit, self.size)),
            candidates=label - label * scale * ours,
            baseline=label - label * noise,
        )


@dataclass(frozen=True, kw_only=True)
class Surprises:
    """Probabilities of a label: the true logit has the deviation `skew`, and models add noise to it. logloss."""

    units: int
    skew: float
    size: int
    gain: float
    metric: str = "logloss"

    _LOGIT, _NOISE, _BAD = -1.0, 0.8, 2.5

    @property
    def place(self) -> str:
        """See World."""
        return f"skew {self.skew:g}, {self.units} units{words(self.size)}"

    @cached_property
    def noise(self) -> float:
        """The candidate's noise on most units."""
        whole = (1 - self.gain) * truth.surprise(self._LOGIT, self._NOISE, self.skew)
        most = (whole - _TAIL * truth.surprise(self._LOGIT, self._BAD, self.skew)) / (1 - _TAIL)
        return truth.solve(lambda noise: truth.surprise(self._LOGIT, noise, self.skew), most, 0.0, self._NOISE)

    def night(self, generator: Generator, tries: int = 1) -> Night:
        """See World."""
        unit = members(generator, self.units, self.size)
        logit = self._LOGIT + self.skew * generator.normal(size=self.units)[unit]
        label = (generator.random(len(unit)) < truth.sigmoid(logit)).astype(np.float64)
        noise = within(generator, unit, self.units)
        bad = generator.random((tries, self.units)) < _TAIL
        ours = 0.8 * noise + 0.6 * generator.normal(size=(tries, len(unit)))
        return Night(
            rows=Rows(label=label, offsets=None, cluster=cluster(unit, self.size)),
            candidates=truth.sigmoid(logit + np.where(bad, self._BAD, self.noise)[:, unit] * ours),
            baseline=truth.sigmoid(logit + self._NOISE * noise),
        )


@dataclass(frozen=True, kw_only=True)
class Calibrations:
    """Probabilities that are too high: the baseline's a little on all units, the candidate's much on a few. ece.

    coarse: the candidate says the same of each row instead. It has one bin where the baseline has up to fifteen.
    """

    units: int
    skew: float
    gain: float
    shift: float
    coarse: bool = False
    metric: str = "ece"

    _LOGIT, _BAD = -1.0, 2.5

    @property
    def place(self) -> str:
        """See World."""
        shape = ", a constant candidate" if self.coarse else ""
        return f"off by {self.whole:.1%}, skew {self.skew:g}, {self.units} units{shape}"

    @cached_property
    def whole(self) -> float:
        """The true ECE of the baseline: all its bins err to the same side, so it is the mean of what it errs."""
        return truth.excess(self._LOGIT, self.shift, self.skew)

    @cached_property
    def ours(self) -> float:
        """The candidate's shift on most units."""
        most = (1 - self.gain) * self.whole - _TAIL * truth.excess(self._LOGIT, self._BAD, self.skew)
        return truth.solve(lambda one: truth.excess(self._LOGIT, one, self.skew), most / (1 - _TAIL), 0.0, self._BAD)

    def night(self, generator: Generator, tries: int = 1) -> Night:
        """See World."""
        logit = self._LOGIT + self.skew * generator.normal(size=self.units)
        label = (generator.random(self.units) < truth.sigmoid(logit)).astype(np.float64)
        if self.coarse:
            mean = truth.normal_mean(truth.sigmoid, self.skew, self._LOGIT)
            candidates = np.full((tries, self.units), mean + (1 - self.gain) * self.whole)
        else:
            bad = generator.random((tries, self.units)) < _TAIL
            candidates = truth.sigmoid(logit + np.where(bad, self._BAD, self.ours))
        return Night(
            rows=Rows(label=label, offsets=None),
            candidates=candidates,
            baseline=truth.sigmoid(logit + self.shift),
        )


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """Groups of ten rows with one positive. tail: the share of units that the candidate puts in a bad order. ndcg@10.

    A unit can be easier or harder, for both models and for one alone: so groups of a unit vary together.
    """

    units: int
    tail: float
    size: int
    gain: float
    metric: str = "ndcg@10"

    _ROWS, _BAD, _BY_UNIT = 10, -1.5, 0.5

    @property
    def place(self) -> str:
        """See World."""
        return f"bad order in {self.tail:.0%}, {self.units} units{words(self.size, 'groups')}"

    @cached_property
    def skill(self) -> float:
        """The mean score of the candidate's positives in most units, where the baseline's is 1."""
        whole = (1 + self.gain) * self._value(1.0)
        most = (whole - self.tail * self._value(self._BAD)) / (1 - self.tail)
        return truth.solve(self._value, most, 0.0, 6.0)

    def _value(self, skill: float) -> float:
        return truth.discounted(skill, math.sqrt(1 + 2 * self._BY_UNIT**2), self._ROWS)

    def night(self, generator: Generator, tries: int = 1) -> Night:
        """See World."""
        unit = members(generator, self.units, self.size)
        shape = (len(unit), self._ROWS)
        label = np.zeros(shape)
        label[np.arange(len(unit)), generator.integers(0, self._ROWS, len(unit))] = 1
        common, theirs = generator.normal(size=(2, *shape))
        level, other = self._BY_UNIT * generator.normal(size=(2, self.units))
        bad = generator.random((tries, self.units)) < self.tail
        skill = np.where(bad, self._BAD, self.skill) + level + self._BY_UNIT * generator.normal(size=bad.shape)
        share = math.sqrt(0.95 if self.tail else 0.5)
        rest = math.sqrt(1 - share**2)
        ours = skill[:, unit, None] * label + share * common + rest * generator.normal(size=(tries, *shape))
        base = (1 + level + other)[unit, None] * label + share * common + rest * theirs
        user = cluster(unit, self.size)
        return Night(
            rows=Rows(
                label=label.ravel(),
                offsets=np.arange(0, label.size + 1, self._ROWS),
                cluster=None if user is None else user.repeat(self._ROWS),
            ),
            candidates=ours.reshape(tries, -1),
            baseline=base.ravel(),
        )


@dataclass(frozen=True, kw_only=True)
class Positives:
    """About 2,000 rows, few units of them positive; the candidate misses a share of these. auc or pr_auc.

    A unit, such as a user, is positive in all its rows or in none.
    """

    metric: str
    positives: int
    missed: float
    size: int
    gain: float

    _ROWS, _SKILL, _BAD = 2000, 1.5, 0.0

    @property
    def place(self) -> str:
        """See World."""
        return f"{self.positives} positives, {self.missed:.0%} of them missed{words(self.size)}"

    @cached_property
    def skill(self) -> float:
        """The mean score of the positives that the candidate does not miss."""
        return truth.solve(
            lambda skill: self._value({skill: 1 - self.missed, self._BAD: self.missed}),
            (1 + self.gain) * self._value({self._SKILL: 1.0}),
            0.5,
            6.0,
        )

    def _value(self, skills: dict[float, float]) -> float:
        if self.metric == "auc":
            return truth.area(skills)
        return truth.precision(skills, self.positives / (self._ROWS // self.size))

    def night(self, generator: Generator, tries: int = 1) -> Night:
        """See World."""
        units = self._ROWS // self.size
        unit = members(generator, units, self.size)
        label = (unit < self.positives).astype(np.float64)
        user, theirs = generator.normal(size=(2, units))
        mine, bad = generator.normal(size=(tries, units)), generator.random((tries, units)) < self.missed
        user, theirs, mine = math.sqrt(0.4) * user, math.sqrt(0.3) * theirs, math.sqrt(0.3) * mine
        skill = np.where(bad, self._BAD, self.skill)
        own = math.sqrt(0.3) * generator.normal(size=(tries + 1, len(unit)))
        return Night(
            rows=Rows(label=label, offsets=None, cluster=cluster(unit, self.size)),
            candidates=label * skill[:, unit] + (user + mine)[:, unit] + own[1:],
            baseline=self._SKILL * label + (user + theirs)[unit] + own[0],
        )
