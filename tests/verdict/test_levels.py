"""Attempts at one night, and a champion that ages: what the rule does over many nights."""

from collections.abc import Callable
from datetime import date
from statistics import NormalDist

import numpy as np
import pytest

from ratchet.contracts.gate import Gate
from ratchet.contracts.repetition import HoldoutAttempt, Repetition, numbers
from ratchet.metrics.measurement import Measurement, mean
from ratchet.metrics.rows import Floats
from ratchet.verdict.comparison import Comparison, compare
from ratchet.verdict.levels import compare_at
from ratchet.verdict.rules import Case, rule

DAY = date(2026, 11, 20)
GROUPS, TRIES = 200, 20
Levels = Callable[[int], float]


def measured(values: Floats) -> Measurement:
    """The mean over groups of a metric between 0 and 1."""
    ones = np.ones(len(values))
    return mean(np.clip(values, 0, 1), ones, ones)


def against(ours: Floats, theirs: Floats, level: float) -> Comparison:
    return compare_at(measured(ours), measured(theirs), lower_is_better=False, level=level, seed=0)


def verdict(found: Comparison, *, margin: float = 0.0, gate: Gate | None = None, stale: int | None = None) -> str:
    case = Case(
        metric="ndcg@10", candidate=0.5, baseline=0.5, comparison=found, slices=(), margin=margin, units="groups",
        against="production (version 1)", first=False, gate=gate or Gate(), stale_days=stale, days=(DAY,),
    )  # fmt: skip
    return rule(case).verdict


def is_promoted(seed: int, levels: Levels) -> bool:
    """Whether a night is promoted in one of its attempts, each with another candidate that is as good as production.

    Models are exchangeable: a group has a value of its own, and each model one around it.
    """
    generator = np.random.default_rng(seed)
    level = generator.uniform(0.3, 0.7, GROUPS)
    production = level + generator.normal(scale=0.15, size=GROUPS)
    made: list[HoldoutAttempt] = []
    for number in range(TRIES):
        candidate = level + generator.normal(scale=0.15, size=GROUPS)
        made.append(HoldoutAttempt(candidate=str(number), metric="ndcg@10", data_date=DAY, nights=1, run_id="r"))
        if candidate.mean() > production.mean() and (
            verdict(against(candidate, production, levels(numbers(made)[-1]))) == "promote"
        ):
            return True
    return False


def shared(number: int) -> float:
    return Repetition(number=number).level(0.95)


def test_twenty_runs_of_a_night_promote_no_more_often_than_one() -> None:
    nights = 60
    assert sum(is_promoted(seed, shared) for seed in range(nights)) <= 7  # 5 % of 60, and what chance adds to it
    assert sum(is_promoted(seed, lambda _: 0.95) for seed in range(nights)) > 10  # without shares


def test_a_deep_level_has_a_bound_that_a_normal_tail_would_have() -> None:
    generator = np.random.default_rng(0)
    theirs = generator.uniform(0.3, 0.7, 500)
    ours = theirs + generator.normal(scale=0.1, size=500)
    found, plain = against(ours, theirs, 0.99999), compare(
        measured(ours), measured(theirs), lower_is_better=False, confidence=0.95, seed=0
    )  # fmt: skip
    away = (found.gain.value - found.gain.low) / plain.spread
    assert away == pytest.approx(NormalDist().inv_cdf(0.99999), rel=0.1)
    assert found.confidence == 0.99999
    assert found.gain.low < against(ours, theirs, 0.9999).gain.low < against(ours, theirs, 0.99).gain.low


GATE = Gate(min_gain=0.005, stale_after="14d", max_stale_loss=0.01)  # type: ignore[arg-type] # as a file has it


def night(seed: int, gain: float) -> Comparison:
    """A candidate with a true relative gain; the standard error is about 0.9 %."""
    generator = np.random.default_rng(seed)
    theirs = generator.uniform(0.4, 0.6, 500)
    ours = theirs * (1 + gain) + generator.normal(scale=0.1, size=500)
    return against(ours, theirs, shared(1))


def test_in_a_world_that_drifts_slowly_the_champion_s_age_is_bounded() -> None:
    """The champion loses 0.02 % a day against a model of today, which no night can see."""
    ages, age = [], 1
    for seed in range(200):
        stale = age if age > 14 else None
        margin = GATE.min_gain if stale is None else -GATE.max_stale_loss
        promoted = verdict(night(seed, 0.0002 * age), margin=margin, gate=GATE, stale=stale) == "promote"
        age = 1 if promoted else age + 1
        ages.append(age)
    assert max(ages) <= 14 + 14
    assert max(ages) > 14


def test_a_refresh_that_truly_loses_more_than_is_allowed_is_rare() -> None:
    nights = 300
    lost = sum(
        verdict(night(seed, -GATE.max_stale_loss), margin=-GATE.max_stale_loss, gate=GATE, stale=15) == "promote"
        for seed in range(1000, 1000 + nights)
    )
    assert lost <= 0.05 * nights + 2 * (0.05 * 0.95 * nights) ** 0.5


def test_a_very_late_attempt_has_a_bound_with_few_units_too() -> None:
    generator = np.random.default_rng(0)
    theirs = generator.uniform(0.3, 0.7, 40)
    ours = theirs + generator.normal(scale=0.1, size=40)
    level = Repetition(number=1000, nights=30).level(0.99)
    found = against(ours, theirs, level)
    assert np.isfinite(found.gain.low)
    assert found.gain.low < against(ours, theirs, 0.99).gain.low


@pytest.mark.parametrize("confidence", [0.99, 0.9999])
def test_two_units_have_a_bound_at_every_confidence(confidence: float) -> None:
    found = against(np.array([0.5, 0.6]), np.array([0.4, 0.7]), confidence)
    assert np.isfinite(found.gain.low)
    assert not found.measurable
