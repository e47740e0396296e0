"""How sure one can be that a candidate is better: paired bootstrap over the units that vary independently.

Units are groups (queries, users) where there are groups, and rows otherwise. A resample gives every unit a random
weight with mean 1 and variance 1, the same for candidate and baseline. The weights are those of a Poisson bootstrap
(Chamandy et al. 2012, Estimating uncertainty for massive data streams), drawn from bytes, so that a thousand resamples
are a few matrix products.

A change here violates the promise of the project when a candidate that is no better than the margin is promoted more
often than 1 - confidence.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ratchet.contracts.summaries import Interval
from ratchet.metrics.metrics import Floats, Measurement

RESAMPLES = 1000
POWER = 0.8
MIN_UNITS = 10
"""With fewer units than this nothing is concluded: a bootstrap of so few is blind to what it has not seen."""

MAX_BLOCKS = 4096
"""More units than this are summed into so many blocks; the spread is then still known to about 1 %."""

_CHUNK_BYTES = 16 << 20
_NORMAL = NormalDist()
# How many of 256 bytes become the weights 0 to 5: mean and variance are exactly 1, the third moment 4.96 (Poisson: 5).
_WEIGHTS = np.repeat(np.arange(6, dtype=np.float32), (95, 92, 49, 15, 4, 1))


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """gain: relative, with one-sided bounds at the confidence asked for. spread: its standard error."""

    gain: Interval
    spread: float
    effective: int
    confidence: float

    @property
    def measurable(self) -> bool:
        """Whether there are enough units to conclude anything."""
        return self.effective >= MIN_UNITS

    def smallest_visible(self, margin: float) -> float:
        """The true gain at which four runs in five would have shown more than the margin."""
        return margin + (_NORMAL.inv_cdf(self.confidence) + _NORMAL.inv_cdf(POWER)) * self.spread

    def p_below(self, bound: float) -> float:
        """p-value of `the gain is at least bound`; small where the gain is surely below it."""
        if self.spread == 0:
            return 0.0 if self.gain.value < bound else 1.0
        return _NORMAL.cdf((self.gain.value - bound) / self.spread)


def relative_gain(candidate: Floats, baseline: Floats, *, lower_is_better: bool) -> Floats:
    """Gain relative to the baseline, absolute over a baseline of 0; positive is better, whatever the metric."""
    gain = baseline - candidate if lower_is_better else candidate - baseline
    size = np.abs(baseline)
    return np.asarray(gain / np.where(size > 0, size, 1.0))


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
    effective = min(candidate.effective, baseline.effective)
    values = np.array([candidate.value]), np.array([baseline.value])
    value = float(relative_gain(*values, lower_is_better=lower_is_better)[0])
    totals = resample(np.hstack([candidate.sums, baseline.sums]), resamples=resamples, seed=seed)
    width = candidate.sums.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        draws = relative_gain(
            candidate.combine(totals[:, :width]), baseline.combine(totals[:, width:]), lower_is_better=lower_is_better
        )
    draws = draws[np.isfinite(draws)]
    if effective < 2 or not len(draws):  # noqa: PLR2004 - a spread takes two
        return Comparison(
            gain=Interval(value=value, low=value, high=value), spread=0.0, effective=effective, confidence=confidence
        )
    tail = expanded_tail(1 - confidence, effective)
    low, high = np.quantile(draws, (tail, 1 - tail))
    spread = float(draws.std(ddof=1)) * math.sqrt(effective / (effective - 1))
    interval = Interval(value=_round(value), low=_round(min(low, value)), high=_round(max(high, value)))
    return Comparison(gain=interval, spread=_round(spread), effective=effective, confidence=confidence)


def resample(columns: Floats, *, resamples: int, seed: int) -> Floats:
    """Weighted column sums [resamples, k] of columns [units, k]; the same weights for all columns."""
    columns = _blocks(columns)
    units, width = columns.shape
    scale = np.abs(columns).max(axis=0, initial=0.0)
    scale[scale == 0] = 1.0
    scaled = (columns / scale).astype(np.float32)
    generator = np.random.PCG64(seed)
    totals = np.empty((resamples, width))
    step = max(1, _CHUNK_BYTES // (4 * max(units, 1)))
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        raw: NDArray[np.uint64] = generator.random_raw(-(-rows * units // 8))
        weights = _WEIGHTS[raw.view(np.uint8)[: rows * units]].reshape(rows, units)
        totals[start : start + rows] = weights @ scaled
    return np.asarray(totals * scale)


def expanded_tail(tail: float, units: int) -> float:
    """The tail of the percentile interval that has the wanted coverage with few units (Hesterberg 2015).

    A percentile interval is too narrow by the factor that Student's t and n - 1 make up for; the tail is pushed out
    accordingly.
    """
    degrees = units - 1
    z = -_NORMAL.inv_cdf(tail)
    # Cornish and Fisher's expansion of Student's t in the normal quantile; off by under 1 % from 5 degrees on.
    student = z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
    return _NORMAL.cdf(-student * math.sqrt(units / degrees))


def holm(p_values: list[float], level: float) -> list[bool]:
    """Which hypotheses are refuted when all of them together may be refuted wrongly with probability `level`."""
    refuted = [False] * len(p_values)
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[index] > level / (len(p_values) - rank):
            break
        refuted[index] = True
    return refuted


def _blocks(columns: Floats) -> Floats:
    units, width = columns.shape
    if units <= MAX_BLOCKS:
        return columns
    deep = -(-units // MAX_BLOCKS)
    padded = np.zeros((deep * MAX_BLOCKS, width))
    padded[:units] = columns
    return np.asarray(padded.reshape(deep, MAX_BLOCKS, width).sum(axis=0))


def _round(value: float) -> float:
    """To ten digits after the point, below which matrix products differ from machine to machine."""
    return round(float(value), 10)
