"""Planted models have the true gain that was asked for, and differ from each other as before."""

import numpy as np
import pytest

from ratchet.verdict.gate_check.differences import differences
from ratchet.verdict.gate_check.draws import Draws
from ratchet.verdict.gate_check.pair import Pair, SummedPair, gain
from ratchet.verdict.gate_check.planting import planted, widened
from ratchet.verdict.gate_check.sample import pair_of
from ratchet.verdict.gate_check.scenarios import Repeat, spread_of
from tests.verdict.gate_check.seeded_samples import keys, of_users, ranked, rare, skewed

SAMPLES = {
    "ndcg@10": ranked(200),
    "mrr@5": ranked(200),
    "rmse": skewed(200),
    "mae": skewed(200),
    "logloss": of_users(40),
    "auc": of_users(40),
    "pr_auc": of_users(40),
}
GAINS = (-0.05, 0.0, 0.005, 0.04)


def pair(metric: str) -> Pair:
    found = pair_of(SAMPLES[metric], metric)
    assert found is not None
    return found


@pytest.mark.parametrize("wanted", GAINS)
@pytest.mark.parametrize("metric", SAMPLES)
def test_the_planted_gain_is_the_wanted_one_and_never_above_it(metric: str, wanted: float) -> None:
    before = pair(metric)
    spread = spread_of(before, Draws.single(before.units), seed=0)
    found = planted(before, wanted, spread=spread)
    assert found is not None
    assert found.whole is not None
    off = wanted - gain(found.whole, metric)
    assert -1e-9 <= off <= 0.1 * spread
    if isinstance(found, SummedPair):
        assert off == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("metric", ["ndcg@10", "rmse", "logloss"])
def test_planting_keeps_the_skew_of_the_differences(metric: str) -> None:
    before, after = pair(metric), planted(pair(metric), 0.02, spread=1.0)
    assert after is not None
    assert isinstance(before, SummedPair)
    assert isinstance(after, SummedPair)
    shapes = [one.candidate.sums[:, 0] - one.baseline.sums[:, 0] for one in (before, after)]
    first, second = (values - values.mean() for values in shapes)
    assert np.allclose(first, second)
    assert not np.allclose(*shapes)


def test_a_gain_that_no_model_can_have_is_not_planted() -> None:
    found = pair("auc")
    assert found.whole is not None
    most = 1 / found.whole[1].value - 1
    assert planted(found, 2 * most, spread=0.01) is None
    assert planted(pair("rmse"), 1.5, spread=0.01) is None


def test_a_gain_between_the_steps_of_few_positives_is_planted_from_below() -> None:
    found = pair_of(rare(15), "pr_auc")
    assert found is not None
    spread = spread_of(found, Draws.single(found.units), seed=0)
    after = planted(found, 0.0, spread=spread)
    assert after is not None
    assert after.whole is not None
    assert -0.1 * spread <= gain(after.whole, "pr_auc") <= 1e-9


@pytest.mark.parametrize("metric", ["ndcg@10", "rmse", "auc"])
def test_the_gains_of_repeated_runs_vary_as_those_of_the_run(metric: str) -> None:
    """And two candidates against one production share half of that variance."""
    before = pair(metric)
    draws, wide = Draws.single(before.units), widened(before)
    generator = np.random.default_rng(0)
    gains = []
    for _ in range(600):
        night = draws.draw(generator)
        production = night.coin(generator)
        tries = [wide.measure(night, theirs=night.coin(generator), ours=production) for _ in range(2)]
        gains.append([gain(one, metric) for one in tries if one])
    first, second = np.array(gains).T
    coin = np.random.default_rng(1)
    swapped = []
    for _ in range(600):
        night = draws.draw(coin)
        mask = night.coin(coin)
        measured = before.measure(night, theirs=mask, ours=mask)
        assert measured is not None
        swapped.append(gain(measured, metric))
    assert np.std(first) == pytest.approx(np.std(swapped), rel=0.15)
    assert np.corrcoef(first, second)[0, 1] == pytest.approx(0.5, abs=0.12)


def test_a_first_attempt_is_the_gate_itself_and_more_attempts_promote_more() -> None:
    found = pair("ndcg@10")
    scenario = Repeat(
        pair=widened(found), draws=Draws.single(found.units), gate=keys("ndcg@10"), confidences=(0.95,) * 20
    )
    generator = np.random.default_rng(0)
    first = np.array([scenario.night(generator) for _ in range(150)])[:, 0]
    assert (first <= 1).mean() < 0.12
    assert (first <= 20).mean() > 2 * (first <= 1).mean()


def test_differences_favour_the_candidate_where_it_is_better() -> None:
    found = differences(pair("rmse"))
    assert found is not None
    whole = pair("rmse").whole
    assert whole is not None
    assert found.sum() == pytest.approx(0, abs=1e-9)
