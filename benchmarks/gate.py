"""gate: false promotions where the true gain is the margin and the models are unequal; and the power on NDCG."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.measure import Result
from ratchet.contracts.gate import LOWER_IS_BETTER, family
from ratchet.metrics.metrics import Floats, Measurement, Rows, measure
from ratchet.verdict.comparison import compare, relative_gain
from ratchet.verdict.resampling import resample
from ratchet.verdict.student import expanded_tail

MARGIN, CONFIDENCE = 0.005, 0.95
_OVER, _TAIL = 3.0, 0.04
Pair = tuple[Rows, Floats, Floats]
_BAD_SHARE = 0.1
"""The positives to which the candidate gives low scores."""
_LEAST_MEASURABLE = 0.02
"""With a smaller share of nights that have a verdict, a cell has none."""
_LEAST_OF_BEFORE = 9
"""With so few units the method of before concluded nothing."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """night: rows and the scores of candidate and baseline, whose true relative gain is known."""

    name: str
    metric: str
    night: Callable[[np.random.Generator], Pair]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Shares of nights. before: promotions by percentiles of the draws alone."""

    promoted: float
    before: float
    measurable: float

    def allowed(self, nights: int) -> float:
        """The share of false promotions that the confidence allows, and two standard errors."""
        return 1 - CONFIDENCE + 2 * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / nights)


def play(cell: Cell, nights: int, seed: int) -> Outcome:
    """Nights of a cell, each with other rows and other resamples."""
    generator = np.random.default_rng(seed)
    lower = family(cell.metric) in LOWER_IS_BETTER
    counts = np.zeros(3)
    for night in range(nights):
        rows, candidate, baseline = cell.night(generator)
        one, other = measure(cell.metric, rows, candidate), measure(cell.metric, rows, baseline)
        if one is None or other is None:
            continue
        found = compare(one, other, lower_is_better=lower, confidence=CONFIDENCE, seed=night)
        promoted = found.measurable and found.gain.low > MARGIN
        counts += promoted, _percentile(one, other, lower=lower, seed=night) > MARGIN, found.measurable
    return Outcome(promoted=counts[0] / nights, before=counts[1] / nights, measurable=counts[2] / nights)


def _percentile(one: Measurement, other: Measurement, *, lower: bool, seed: int) -> float:
    """The lower bound by percentiles of the gain, as it was made for each metric before."""
    width = one.sums.shape[1]
    totals = resample(np.hstack([one.sums, other.sums]), resamples=1000, seed=seed)
    with np.errstate(divide="ignore", invalid="ignore"):
        draws = relative_gain(one.combine(totals[:, :width]), other.combine(totals[:, width:]), lower_is_better=lower)
    units = min(one.effective, other.effective)
    draws = draws[np.isfinite(draws)]
    return (
        float(np.quantile(draws, expanded_tail(1 - CONFIDENCE, units)))
        if units > _LEAST_OF_BEFORE and len(draws)
        else -1.0
    )


def errors(metric: str, units: int, skew: float, per_cluster: int) -> Cell:
    """A regression whose errors grow with a log-normal label: better on the bulk, thrice as bad on 4 % of units."""
    power = 2 if metric == "rmse" else 1
    bulk = ((1 - _TAIL * _OVER**power) / (1 - _TAIL)) ** (1 / power)

    def night(generator: np.random.Generator) -> Pair:
        size = np.exp(skew * generator.normal(size=units)).repeat(per_cluster)
        level = generator.normal(size=units).repeat(per_cluster)
        noise = level * math.sqrt(0.5) + generator.normal(size=len(level)) * math.sqrt(0.5)
        noise = noise if per_cluster > 1 else level
        scale = np.where(generator.random(units) < _TAIL, _OVER, bulk).repeat(per_cluster) * (1 - MARGIN)
        ours = size * scale * (0.8 * noise + 0.6 * generator.normal(size=len(level)))
        cluster = np.arange(units).repeat(per_cluster) if per_cluster > 1 else None
        return Rows(label=size, offsets=None, cluster=cluster), size - ours, size - size * noise

    return Cell(name=f"{metric}, skew {skew:g}, clusters of {per_cluster}, {units} units", metric=metric, night=night)


def ranks(metric: str, groups: int, tail: float, gain: float) -> Cell:
    """Groups of ten rows with one positive: a better order in most groups, in a share of them a bad one."""

    def night(generator: np.random.Generator, shift: float, count: int) -> Pair:
        label = np.zeros((count, 10))
        label[np.arange(count), generator.integers(0, 10, count)] = 1
        common, mine, theirs = generator.normal(size=(3, count, 10))
        skill = np.where(generator.random(count) < tail, -1.5, 1 + shift)[:, None]
        share = math.sqrt(0.95 if tail else 0.5)
        rest = math.sqrt(1 - share**2)
        ours, base = skill * label + share * common + rest * mine, label + share * common + rest * theirs
        return Rows(label=label.ravel(), offsets=np.arange(0, 10 * count + 1, 10)), ours.ravel(), base.ravel()

    shift = _solve(lambda one: _gain(metric, night(np.random.default_rng(7), one, 60_000)), gain)
    return Cell(
        name=f"{metric}, bad order in {tail:.0%}, {groups} groups, true gain {gain:.1%}",
        metric=metric,
        night=lambda generator: night(generator, shift, groups),
    )


def positives(metric: str, count: int, per_cluster: int) -> Cell:
    """2,000 rows with few positives: higher scores for most positives, low ones for one in ten."""

    def night(generator: np.random.Generator, shift: float, rare: int, rows: int) -> Pair:
        label = np.zeros(rows // per_cluster)
        label[: rare // per_cluster] = 1
        bad = generator.random(len(label)) < _BAD_SHARE
        user, mine, theirs = generator.normal(size=(3, len(label)))
        label, user, mine, theirs = (one.repeat(per_cluster) for one in (label, user, mine, theirs))
        bad = bad.repeat(per_cluster)
        own = generator.normal(size=(2, rows)) * math.sqrt(0.3)
        ours = label * np.where(bad, 0.0, 1.5 + shift) + user * math.sqrt(0.4) + mine * math.sqrt(0.3) + own[0]
        base = 1.5 * label + user * math.sqrt(0.4) + theirs * math.sqrt(0.3) + own[1]
        cluster = np.arange(rows // per_cluster).repeat(per_cluster) if per_cluster > 1 else None
        return Rows(label=label, offsets=None, cluster=cluster), ours, base

    def gain(shift: float) -> float:
        return _gain(metric, night(np.random.default_rng(7), shift, count * 200, 400_000))

    shift = _solve(gain, MARGIN)
    return Cell(
        name=f"{metric}, {count} positives in clusters of {per_cluster}",
        metric=metric,
        night=lambda generator: night(generator, shift, count, 2000),
    )


def _gain(metric: str, pair: Pair) -> float:
    rows, candidate, baseline = pair
    plain = Rows(label=rows.label, offsets=rows.offsets)
    one, other = measure(metric, plain, candidate), measure(metric, plain, baseline)
    return one.value / other.value - 1 if one and other else 0.0


def _solve(gain: Callable[[float], float], wanted: float) -> float:
    """The shift at which a rising gain is as wanted."""
    low, high = -0.5, 3.0
    for _ in range(16):
        middle = (low + high) / 2
        low, high = (middle, high) if gain(middle) < wanted else (low, middle)
    return (low + high) / 2


def cells(*, full: bool) -> Iterator[Cell]:
    """The grid; without --full a few cells of each kind."""
    sizes = (30, 100, 300, 1000, 5000) if full else (300,)
    for units in sizes:
        for skew in (0.0, 0.5, 1.0) if full else (0.5,):
            yield errors("rmse", units, skew, 1)
            yield errors("mae", units, skew, 1)
        yield errors("rmse", units, 0.5, 10)
        for tail in (0.0, 0.04, 0.1) if full else (0.04,):
            for metric in ("ndcg@10", "map@10") if full else ("ndcg@10",):
                yield ranks(metric, units, tail, MARGIN)
    for count in (10, 25, 50, 100, 200) if full else (50,):
        for metric in ("auc", "pr_auc"):
            yield positives(metric, count, 1)
            if full:
                yield positives(metric, count, 5)


def run(*, full: bool) -> Result:
    """Every cell, 2,000 nights each (200 without --full), and the power on NDCG beside that of percentiles."""
    nights = 2000 if full else 200
    rows, worst, judged, silent = [], 0.0, 0, 0
    started = time.perf_counter()
    for cell in cells(full=full):
        found = play(cell, nights, seed=1)
        verdict = found.measurable > _LEAST_MEASURABLE
        judged, silent = judged + verdict, silent + (not verdict)
        worst = max(worst, found.promoted if verdict else 0.0)
        text = f"{found.promoted:.1%} (percentiles {found.before:.1%}; a verdict in {found.measurable:.0%} of nights)"
        rows.append((cell.name, text))
        print(f"{cell.name}: {text}", flush=True)
    for groups, gain in ((300, 0.04), (1000, 0.02)):
        found = play(ranks("ndcg@10", groups, 0.0, gain), nights, seed=2)
        rows.append(
            (f"power: ndcg@10, {groups} groups, true gain {gain:.0%}", f"{found.promoted:.1%} ({found.before:.1%})")
        )
        print(rows[-1], flush=True)
    allowed = found.allowed(nights)
    rows.append(("cells with a verdict; without", f"{judged}; {silent}"))
    rows.append(("seconds", f"{time.perf_counter() - started:.0f}"))
    return Result(
        name="gate",
        ratio=worst,
        goal=allowed,
        unit="share of false promotions in the worst cell",
        ours=worst,
        peer=1 - CONFIDENCE,
        peer_name="the share that the confidence allows",
        rows=tuple(rows),
    )
