"""How sure one can be that a candidate is better: paired bootstrap over the units that vary independently.

Units are clusters (users) where they are named, else groups (queries) where there are groups, and rows otherwise.

A change here violates the promise of the project when a candidate that is no better than the margin is promoted more
often than 1 - confidence.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ratchet.contracts.judgements import Interval
from ratchet.metrics.measurement import Measurement, blocks, kish, ratio
from ratchet.metrics.rows import Floats
from ratchet.verdict.gain import absolute_gain, is_nothing, relative_gain
from ratchet.verdict.intervals import Bounds, Denoised, Percentiles, Studentised
from ratchet.verdict.resampling import resample
from ratchet.verdict.student import NORMAL, student_below

RESAMPLES = 2000
POWER = 0.8
MIN_UNITS = 30
"""With fewer units that differ nothing is concluded: a bootstrap of so few is blind to what it has not seen."""

UNSEEN = 0.015
"""The share of units with a large loss that a sample has to show. Such a share is missed altogether by
ln(1 - confidence) / ln(1 - share) units with the probability 1 - confidence: by 200 at 95 %."""

MIN_DEGREES = 12
"""With fewer degrees of freedom the spread itself is not known: a few units make most of it."""

_STEP = 1e-5
_MOST_NOISE = 0.999
_ROUNDING = 1e-10
"""Of the largest part: sums over blocks are differences of values, which no two models round alike."""
_AT_ONCE = 64  # columns: average precision has a thousand
Trouble = Literal["not-the-same-units", "too-few-units", "too-heavy-a-tail"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """gain: relative, with one-sided bounds at the confidence asked for. spread: its standard error (delta method).

    effective: units on which the models differ and that carry information. required: so many have to. degrees: of
    freedom of the spread, 2n / (kurtosis - 1) of n units. bounds: at other confidences, None where nothing varies.
    paired: whether the metric has a value of both models on the same units.
    """

    gain: Interval
    spread: float
    effective: int
    confidence: float
    required: int = MIN_UNITS
    degrees: float = math.inf
    paired: bool = True
    bounds: Bounds | None = field(default=None, repr=False, compare=False)

    @property
    def trouble(self) -> Trouble | None:
        """Why nothing can be concluded, or None."""
        if not self.paired:
            return "not-the-same-units"
        if self.effective < self.required:
            return "too-few-units"
        return "too-heavy-a-tail" if self.degrees < MIN_DEGREES else None

    @property
    def measurable(self) -> bool:
        """Whether anything can be concluded."""
        return self.trouble is None

    def why_not(self, units: str) -> str:
        """Why nothing can be concluded, as a clause; empty where something can. units: what was resampled, plural."""
        if self.trouble == "not-the-same-units":
            return f"the metric has a value of the one model on other {units} than of the other"
        if self.trouble == "too-few-units":
            return f"only {self.effective} {units} tell the models apart, at least {self.required} are required"
        if self.trouble == "too-heavy-a-tail":
            most = f"as much as {self.degrees:.0f} would, at least {MIN_DEGREES} are required"
            return f"a few {units} make most of the difference, so that its spread is known {most}"
        return ""

    def bounds_at(self, confidence: float) -> Interval:
        """The gain with its bounds at another confidence, from the same draws."""
        if self.bounds is None:
            return self.gain
        low, high = self.bounds.at(confidence)
        value = self.gain.value
        return Interval(value=value, low=_round(min(low, value)), high=_round(max(high, value)))

    def smallest_visible(self, margin: float) -> float:
        """The true gain at which four runs in five would have shown more than the margin."""
        shown = NORMAL.inv_cdf(self.confidence) * self.spread
        if self.bounds is not None:
            shown = max(shown, self.gain.value - self.gain.low)
        return margin + shown + NORMAL.inv_cdf(POWER) * self.spread

    def p_below(self, bound: float) -> float:
        """p-value of `the gain is at least bound`; small where the gain is surely below it (Student's t)."""
        if self.spread == 0:
            return 0.0 if self.gain.value < bound else 1.0
        return student_below((self.gain.value - bound) / self.spread, self._degrees)

    def p_above(self, bound: float) -> float:
        """p-value of `the gain is at most bound`; small where the gain is surely above it (Student's t)."""
        if self.spread == 0:
            return 0.0 if self.gain.value > bound else 1.0
        return student_below((bound - self.gain.value) / self.spread, self._degrees)

    @property
    def _degrees(self) -> float:
        return max(min(self.degrees, self.effective - 1.0), 1.0)


def compare(
    candidate: Measurement,
    baseline: Measurement,
    *,
    lower_is_better: bool,
    confidence: float,
    seed: int,
    resamples: int = RESAMPLES,
) -> Comparison:
    """Candidate against baseline on the same units, row i of both `sums` for the same unit."""
    if not _is_paired(candidate, baseline):
        nothing = Interval(value=0, low=0, high=0)
        return Comparison(gain=nothing, spread=0.0, effective=0, confidence=confidence, paired=False)
    pair = _Pair(candidate, baseline, lower_is_better=lower_is_better)
    parts = pair.parts()
    variance = float(np.square(parts).sum())
    units, effective = len(parts), _effective(candidate, baseline)
    tailed = candidate.tailed or baseline.tailed
    required = max(MIN_UNITS, math.ceil(math.log1p(-confidence) / math.log1p(-UNSEEN))) if tailed else MIN_UNITS
    value = pair.gain
    if effective < 2 or not variance > 0:  # noqa: PLR2004 - a spread takes two
        gain = Interval(value=_round(value), low=_round(value), high=_round(value))
        return Comparison(gain=gain, spread=0.0, effective=effective, confidence=confidence, required=required)
    spread = math.sqrt(variance * units / (units - 1))
    degrees = 2 / max(float((parts**4).sum()) / variance**2 - 1 / units, 1e-9)
    bounds: Bounds
    if tailed:
        bounds = pair.studentised(parts, spread, resamples, seed)
    else:
        like = max(min(effective, degrees + 1), 2.0)
        bounds = Percentiles(value=value, draws=pair.draws(resamples, seed), units=like)
        if baseline.noise or candidate.noise:
            bounds = Denoised(bounds=bounds, baseline=_share_of_noise(baseline), candidate=_share_of_noise(candidate))
    low, high = bounds.at(confidence)
    return Comparison(
        gain=Interval(value=_round(value), low=_round(min(low, value)), high=_round(max(high, value))),
        spread=_round(spread * pair.slope),
        effective=effective,
        confidence=confidence,
        required=required,
        degrees=_round(degrees),
        bounds=bounds,
    )


def _is_paired(candidate: Measurement, baseline: Measurement) -> bool:
    """Whether both metrics are over the same units with the same weights.

    A pipeline's own function may have no value where a model says nothing: a model that is silent on the groups on
    which it is bad would be measured on the others alone.
    """
    means = candidate.combine is ratio and baseline.combine is ratio
    return not means or np.array_equal(candidate.sums[:, 1], baseline.sums[:, 1])


def parts_of_gain(candidate: Measurement, baseline: Measurement, *, lower_is_better: bool) -> Floats:
    """The part of each unit in the gain [units], to first order and up to a factor; they add up to zero."""
    return _Pair(candidate, baseline, lower_is_better=lower_is_better).parts()


class _Pair:
    """A statistic of the sums of both models: the logarithm of a ratio for losses, else the relative gain.

    Over a baseline of nothing it is the absolute gain.

    columns: [units, k] of what varies: where both models have the same kind of sums their differences and the
    baseline's, so that sums that are nearly equal keep their digits in float32.
    """

    def __init__(self, candidate: Measurement, baseline: Measurement, *, lower_is_better: bool) -> None:
        self._candidate, self._baseline, self._lower = candidate, baseline, lower_is_better
        self._alike = candidate.sums.shape == baseline.sums.shape
        first = candidate.sums - baseline.sums if self._alike else candidate.sums
        whole = np.hstack([first, baseline.sums])
        self._used: NDArray[np.bool_] = np.asarray(whole.any(axis=0))
        self._split = first.shape[1]
        self.columns = whole[:, self._used]
        self._totals = self.columns.sum(axis=0)
        values = np.array([candidate.value]), np.array([baseline.value])
        self.gain = float(relative_gain(*values, lower_is_better=lower_is_better)[0])
        self._absolute = bool(is_nothing(*values)[0])
        positive = candidate.value > 0 and baseline.value > 0 and not self._absolute
        self._logarithm = lower_is_better and candidate.tailed and positive

    @property
    def slope(self) -> float:
        """How much the relative gain grows with the statistic."""
        return 1 - self.gain if self._logarithm else 1.0

    def statistic(self, totals: Floats) -> Floats:
        """The statistic [...] of column sums [..., k]."""
        whole = np.zeros((*totals.shape[:-1], len(self._used)))
        whole[..., self._used] = totals
        ours, theirs = whole[..., : self._split], whole[..., self._split :]
        with np.errstate(divide="ignore", invalid="ignore"):
            one = self._candidate.combine(ours + theirs if self._alike else ours)
            other = self._baseline.combine(theirs)
            if self._logarithm:
                return np.asarray(np.log(other / one))
            if self._absolute:  # on each resample, as on all units
                return absolute_gain(one, other, lower_is_better=self._lower)
            return relative_gain(one, other, lower_is_better=self._lower)

    def parts(self) -> Floats:
        """The part of each unit in the statistic [units], to first order; they add up to zero."""
        size = np.sqrt(np.square(self.columns).sum(axis=0))
        step = _STEP * np.maximum(np.abs(self._totals), size)
        slopes = np.empty(len(step))
        for start in range(0, len(step), _AT_ONCE):
            some = np.arange(start, min(start + _AT_ONCE, len(step)))
            moved = np.zeros((len(some), len(step)))
            moved[some - start, some] = step[some]
            rise = self.statistic(self._totals + moved) - self.statistic(self._totals - moved)
            slopes[some] = rise / (2 * step[some])
        parts = self.columns @ np.nan_to_num(slopes)
        return np.asarray(parts - parts.mean())

    def draws(self, resamples: int, seed: int) -> Floats:
        """The statistic of each resample that has one, in rising order."""
        drawn = self.statistic(resample(self.columns, resamples=resamples, seed=seed))
        return np.sort(drawn[np.isfinite(drawn)])

    def studentised(self, parts: Floats, spread: float, resamples: int, seed: int) -> Studentised:
        """The statistic of each resample, less its value and over its own spread."""
        width = self.columns.shape[1]
        pairs = np.triu_indices(width)
        rows = blocks(self.columns)
        totals = resample(np.hstack([rows, rows[:, pairs[0]] * rows[:, pairs[1]]]), resamples=resamples, seed=seed)
        sums, products = totals[:, :width], totals[:, width:]
        size = np.sqrt(np.square(self.columns).sum(axis=0))
        slopes = self._slopes(sums, _STEP * np.maximum(np.abs(sums), size))
        twice = np.where(pairs[0] == pairs[1], 1.0, 2.0)
        variance = (slopes[:, pairs[0]] * slopes[:, pairs[1]] * products * twice).sum(axis=1)
        value = float(self.statistic(self._totals))
        with np.errstate(divide="ignore", invalid="ignore"):
            drawn = (self.statistic(sums) - value) / np.sqrt(variance)
        return Studentised(
            value=value,
            spread=spread,
            furthest=float(np.abs(parts).max()),
            draws=np.sort(drawn[np.isfinite(drawn)]),
            logarithm=self._logarithm,
        )

    def _slopes(self, totals: Floats, steps: Floats) -> Floats:
        """The derivative of the statistic by each column's sum [..., k], at sums [..., k]."""
        slopes = np.empty(totals.shape)
        for place in range(totals.shape[-1]):
            moved = np.zeros(totals.shape)
            moved[..., place] = steps[..., place]
            rise = self.statistic(totals + moved) - self.statistic(totals - moved)
            slopes[..., place] = rise / (2 * steps[..., place])
        return slopes


def _effective(candidate: Measurement, baseline: Measurement) -> int:
    """The units that carry information and on which the models differ, as so many of equal weight.

    Of sums over blocks of units no more than the blocks that differ, unless all of them do.
    """
    found, most = [candidate.information, baseline.information], math.inf
    if candidate.sums.shape == baseline.sums.shape and len(candidate.sums) == len(candidate.information):
        differ = (candidate.sums != baseline.sums).any(axis=1)
        found = [np.where(differ[:, None], one, 0.0) for one in found]
    elif candidate.sums.shape == baseline.sums.shape:
        rounding = _ROUNDING * np.abs(baseline.sums).max(axis=0, initial=0.0)
        differ = (np.abs(candidate.sums - baseline.sums) > rounding).any(axis=1)
        most = math.inf if differ.all() else int(differ.sum())
    return int(min(most, *(kish(column) for one in found for column in one.T)))


def _share_of_noise(one: Measurement) -> float:
    """The share of a value that may be noise; never all of it, which would leave nothing to compare with."""
    return min(one.noise / one.value, _MOST_NOISE) if one.value > 0 else 0.0


def _round(value: float) -> float:
    """To ten digits after the point, below which matrix products differ from machine to machine."""
    return round(float(value), 10)
