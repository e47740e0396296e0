"""Guard rails: slices, other metrics, floors, latency and size. Each ends as passed, failed or not-provable.

Passed needs a proof: the bound of the loss is within what is allowed (non-inferiority; Food and Drug Administration
2016, Non-inferiority clinical trials). Failed needs one too. All else is not provable, as is what cannot be measured.

A change here violates the promise of the project when a guard rail passes without a proof that it is kept.
"""

import math
from collections.abc import Sequence

import numpy as np

from ratchet.contracts.gate import lower_is_better
from ratchet.contracts.judgements import GuardJudgement, Interval, Proof, SliceJudgement
from ratchet.contracts.losses import Loss
from ratchet.metrics.measurement import Measurement
from ratchet.metrics.rows import Floats
from ratchet.verdict.comparison import Comparison, compare
from ratchet.verdict.gain import measure_of
from ratchet.verdict.slices import SliceComparison, is_provable


def holm(p_values: list[float], level: float) -> list[bool]:
    """Which hypotheses are refuted when all of them together may be refuted wrongly with probability `level`."""
    refuted = [False] * len(p_values)
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[index] > level / (len(p_values) - rank):
            break
        refuted[index] = True
    return refuted


def judge_slices(slices: list[SliceComparison], *, max_loss: float, confidence: float) -> tuple[SliceJudgement, ...]:
    """Which slices surely keep to max_loss, and which surely lose more.

    A slice fails if it loses more than max_loss with the confidence, and anything at all with the confidence over all
    slices together (Holm 1979): of many slices of two equal models some look bad, and none may stop a candidate more
    often than 1 - confidence.
    """
    measured = [one.comparison for one in slices if one.comparison is not None]
    losing = iter(holm([found.p_below(0.0) for found in measured], 1 - confidence))
    return tuple(
        SliceJudgement(
            column=one.column,
            value=one.value,
            rows=one.rows,
            candidate=one.candidate,
            baseline=one.baseline,
            gain=one.comparison.gain if one.comparison else None,
            outcome=_slice(one.comparison, max_loss, confidence, loses=one.comparison is not None and next(losing)),
        )
        for one in slices
    )


def judge_metric(
    metric: str,
    candidate: Measurement | None,
    baseline: Measurement | None,
    loss: Loss,
    *,
    confidence: float,
    seed: int,
) -> GuardJudgement:
    """Another metric, in which the candidate may lose so much."""
    limit = _limit(loss, candidate, baseline)
    found: Interval | None = None
    outcome: Proof = "not-provable"
    if candidate and baseline:
        compared = compare(candidate, baseline, lower_is_better=_lower(metric), confidence=confidence, seed=seed)
        found, outcome = compared.gain, _proof(compared, -limit, provable=is_provable(compared, candidate, baseline))
    return GuardJudgement(
        kind="metric",
        name=metric,
        candidate=candidate.value if candidate else None,
        baseline=baseline.value if baseline else None,
        limit=round(limit, 10),
        found=found,
        outcome=outcome,
    )


def judge_floor(
    metric: str, candidate: Measurement | None, floor: float, *, confidence: float, seed: int
) -> GuardJudgement:
    """The worst value that a metric of the candidate may have. found: its own value with bounds."""
    found: Interval | None = None
    outcome: Proof = "not-provable"
    if candidate:
        compared = compare(
            candidate, _fixed(candidate, floor), lower_is_better=_lower(metric), confidence=confidence, seed=seed
        )
        found = _own(compared.gain, candidate.value, floor, lower=_lower(metric))
        outcome = _proof(compared, 0.0, provable=compared.measurable)
    return GuardJudgement(
        kind="floor",
        name=metric,
        candidate=candidate.value if candidate else None,
        limit=floor,
        found=found,
        outcome=outcome,
    )


def judge_latency(pairs: Sequence[tuple[float, float]], limit: float, *, confidence: float) -> GuardJudgement:
    """The time of the candidate over that of the champion, measured in turns.

    pairs: (candidate, champion) in seconds. The bounds are those of the median ratio, by the order of the ratios: they
    need no assumption about how times vary (Conover 1999, Practical nonparametric statistics, 3.2).
    """
    ratios = sorted(ours / theirs for ours, theirs in pairs if theirs > 0)
    rank = _rank(len(ratios), 1 - confidence)
    found: Interval | None = None
    outcome: Proof = "not-provable"
    if rank:
        found = Interval(
            value=round(float(np.median(ratios)), 6), low=round(ratios[rank - 1], 6), high=round(ratios[-rank], 6)
        )
        outcome = "passed" if found.high <= limit else "failed" if found.low > limit else "not-provable"
    ours, theirs = (round(float(np.median(times)), 9) for times in zip(*pairs, strict=True)) if pairs else (None, None)
    return GuardJudgement(
        kind="latency", name="latency", candidate=ours, baseline=theirs, limit=limit, found=found, outcome=outcome
    )


def judge_size(candidate: int, baseline: int | None, limit: float) -> GuardJudgement:
    """The bytes of the candidate over those of the champion; baseline: None where they are not known."""
    found: Interval | None = None
    outcome: Proof = "not-provable"
    if baseline:
        ratio = round(candidate / baseline, 6)
        found = Interval(value=ratio, low=ratio, high=ratio)
        outcome = "passed" if ratio <= limit else "failed"
    return GuardJudgement(
        kind="size", name="size", candidate=candidate, baseline=baseline, limit=limit, found=found, outcome=outcome
    )


def _slice(found: Comparison | None, max_loss: float, confidence: float, *, loses: bool) -> Proof:
    if found is None:
        return "not-provable"
    if loses and found.p_below(-max_loss) <= 1 - confidence:
        return "failed"
    return "passed" if found.gain.low > -max_loss else "not-provable"


def _proof(found: Comparison, limit: float, *, provable: bool) -> Proof:
    """Whether the gain is surely above a limit, surely below it, or neither."""
    if not provable:
        return "not-provable"
    return "passed" if found.gain.low > limit else "failed" if found.gain.high < limit else "not-provable"


def _fixed(like: Measurement, value: float) -> Measurement:
    """A metric that has one value however the units of another are resampled."""

    def combine(sums: Floats) -> Floats:
        return np.full(sums.shape[:-1], value)

    return Measurement(value=value, sums=np.zeros((len(like.sums), 1)), combine=combine, information=like.information)


def _limit(loss: Loss, candidate: Measurement | None, baseline: Measurement | None) -> float:
    """The loss that is allowed, divided by what the gain is divided by."""
    if baseline is None:
        return loss.relative or 0.0
    return loss.share(_measure(candidate.value if candidate else 0.0, baseline.value))


def _measure(value: float, baseline: float) -> float:
    return float(measure_of(np.array(value), np.array(baseline)))


def _own(gain: Interval, value: float, floor: float, *, lower: bool) -> Interval:
    """The bounds of a value from those of its gain over a floor."""
    size = _measure(value, floor) * (-1 if lower else 1)
    low, high = sorted(round(floor + bound * size, 10) for bound in (gain.low, gain.high))
    return Interval(value=round(value, 10), low=low, high=high)


def _rank(count: int, tail: float) -> int:
    """The largest rank of which the value is below the median of `count` values with confidence 1 - tail; 0: none."""
    chance, rank = 0.0, 0
    while rank < count // 2:
        chance += math.comb(count, rank) / 2**count
        if chance > tail:
            break
        rank += 1
    return rank


def _lower(metric: str) -> bool:
    return lower_is_better(metric)
