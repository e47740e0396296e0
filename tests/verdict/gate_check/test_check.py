"""A gate that keeps its word passes; skew, few positives and clusters are named, and false promotions fail."""

import numpy as np
import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.judgements import Interval
from ratchet.metrics.metrics import Measurement, Rows
from ratchet.verdict.comparison import Comparison
from ratchet.verdict.gain import relative_gain
from ratchet.verdict.gate_check.check import check_gate
from ratchet.verdict.gate_check.draws import Draws
from ratchet.verdict.gate_check.gate import GateKeys
from ratchet.verdict.gate_check.in_words import answer
from ratchet.verdict.gate_check.outcome import GateCheck, Rate
from ratchet.verdict.gate_check.pair import gain
from ratchet.verdict.gate_check.planting import planted
from ratchet.verdict.gate_check.sample import Sample, pair_of
from ratchet.verdict.gate_check.scenarios import AtMargin, Planted, spread_of
from ratchet.verdict.gate_check.simulation import simulate
from ratchet.verdict.resampling import resample
from tests.verdict.gate_check.seeded_samples import keys, of_users, ranked, rare, sample, skewed, values_of


def silent(done: int, total: int) -> None:
    assert 0 < done <= total


def checked(given: Sample, gate: GateKeys, *, nights: int = 400, seconds: float = 1e6) -> GateCheck:
    return check_gate(given, gate, nights=nights, seed=0, workers=1, progress=silent, seconds=seconds)


def names(found: GateCheck) -> set[str]:
    return {finding.name for finding in found.findings}


def rate(found: GateCheck, name: str) -> Rate:
    return next(one for one in found.rates if one.name == name)


def test_a_gate_on_ndcg_keeps_its_word() -> None:
    found = checked(ranked(300), keys("ndcg@10", min_gain=0.005), nights=600)
    assert not rate(found, "exchanged").failed
    assert not rate(found, "at-margin").failed
    assert not names(found) & {"heavy-tail", "clusters", "few-positives", "too-few-units"}
    assert found.power is not None
    assert found.power.visible is not None
    assert found.power.at(found.power.visible) == pytest.approx(0.8, abs=0.03)
    shares = [point.share for point in found.power.points]
    assert shares == sorted(shares)
    assert shares[-1] > 0.99
    assert [(one.column, one.times) for one in found.harms] == [("country", 1), ("country", 2), ("country", 3)]
    stopped = [one.share for one in found.harms]
    assert stopped == sorted(stopped)


def test_a_heavy_tail_is_named() -> None:
    found = checked(skewed(300), keys("rmse"), nights=200)
    assert "heavy-tail" in names(found)


def test_few_positives_are_named() -> None:
    assert "few-positives" in names(checked(rare(15, 600), keys("pr_auc"), nights=200, seconds=0))


@pytest.mark.heavy
def test_rows_of_one_user_are_named_and_fail_the_gate_that_counts_them_as_independent() -> None:
    found = checked(of_users(150, 20, seed=1), keys("logloss"), nights=200)
    assert "clusters" in names(found)
    assert any("evaluate.cluster to user_id" in one.remedy for one in found.findings)
    assert not any("shop" in one.text for one in found.findings)
    assert not rate(found, "exchanged").failed
    assert rate(found, "exchanged by user_id").failed
    assert not found.passed


def percentile(
    ours: Measurement, theirs: Measurement, *, lower_is_better: bool, confidence: float, seed: int, resamples: int
) -> Comparison:
    """A percentile interval, which is blind to the tail that a sample has not seen."""
    width = ours.sums.shape[1]
    totals = resample(np.hstack([ours.sums, theirs.sums]), resamples=resamples, seed=seed)
    draws = relative_gain(
        ours.combine(totals[:, :width]), theirs.combine(totals[:, width:]), lower_is_better=lower_is_better
    )
    value = gain((ours, theirs), "rmse")
    low = float(np.quantile(draws, 1 - confidence))
    gained = Interval(value=value, low=min(low, value), high=value)
    return Comparison(gain=gained, spread=0.0, effective=len(ours.sums), confidence=confidence, required=10)


def test_a_percentile_interval_fails_on_a_heavy_tail_which_exchanged_models_hide() -> None:
    given = skewed(300, seed=1)
    found = checked(given, keys("rmse", compare=percentile), nights=600)
    assert rate(found, "at-margin").failed
    assert rate(found, "at-margin").share > 2 * rate(found, "exchanged").share
    assert not found.passed


@pytest.mark.heavy
def test_the_power_is_that_of_a_real_comparison_of_models_with_the_same_true_gain() -> None:
    """Real nights are new groups each, and the true gain is that of all of them; a check knows one night only."""
    groups, nights, gate = 1000, 800, keys("ndcg@10", min_gain=0.005)
    real = [pair_of(ranked(groups, ours=0.75, seed=seed), gate.metric) for seed in range(nights)]
    measured = [pair.whole for pair in real if pair and pair.whole]
    true = float(np.mean([gain(one, gate.metric) for one in measured]))
    promoted = float(np.mean([gate.promotes(one) for one in measured]))
    shares = []
    for seed in range(6):
        pair = pair_of(ranked(groups, ours=0.75, seed=10**5 + seed), gate.metric)
        assert pair is not None
        draws = Draws.single(pair.units)
        spread = spread_of(pair, draws, seed=seed)
        far = gate.min_gain + 2.5 * spread
        near, high = (planted(pair, one, spread=spread) for one in (gate.min_gain, far))
        assert near is not None
        assert high is not None
        scenario = Planted(at_margin=near, at_far=high, far=far, draws=draws, gate=gate)
        seen = simulate({"planted": (scenario, 200)}, seed=seed, workers=1, progress=silent)["planted"]
        shares.append(float((seen[:, 1] < true).mean()))
    assert 0.3 < promoted < 0.95
    assert np.mean(shares) == pytest.approx(promoted, abs=0.03)


def test_the_power_between_two_planted_gains_is_that_of_a_gain_that_is_planted_there() -> None:
    gate, pair = keys("rmse"), pair_of(skewed(400), "rmse")
    assert pair is not None
    draws = Draws.single(pair.units)
    spread = spread_of(pair, draws, seed=0)
    far, between = 2.5 * spread, 1.5 * spread
    pairs = [planted(pair, one, spread=spread) for one in (0.0, far, between)]
    near, high, middle = pairs
    assert near is not None
    assert high is not None
    assert middle is not None
    line = Planted(at_margin=near, at_far=high, far=far, draws=draws, gate=gate)
    there = AtMargin(pair=middle, draws=draws, gate=gate)
    found = simulate({"line": (line, 600), "there": (there, 600)}, seed=0, workers=1, progress=silent)
    assert (found["line"][:, 1] < between).mean() == pytest.approx(found["there"].mean(), abs=0.06)


def test_equal_models_and_too_few_units_are_no_pass_but_an_error_by_name() -> None:
    given = ranked(50)
    with pytest.raises(ConfigurationError, match=r"^equal-models: .*; to do: name an older run"):
        checked(sample(given.rows, given.candidate, given.candidate), keys("ndcg@10"))
    with pytest.raises(ConfigurationError, match=r"^too-few-units: .* 5 units .*; to do: raise evaluate.holdout_days"):
        checked(ranked(5), keys("ndcg@10"))


def test_a_confidence_that_is_read_as_an_error_is_named() -> None:
    found = checked(ranked(60), keys("ndcg@10", confidence=0.5), nights=200)
    assert "confidence-misread" in names(found)


def test_a_margin_that_no_night_can_see_and_slices_of_a_few_rows_are_named() -> None:
    given = ranked(100)
    rare_value = sample(
        given.rows,
        given.candidate,
        given.baseline,
        slices=values_of("country", np.repeat(np.where(np.arange(100) < 4, "FR", "DE"), 10)),
        unread=("hour",),
    )
    found = checked(rare_value, keys("ndcg@10", min_gain=0.005), nights=200)
    assert {"margin-invisible", "slice-never-measurable", "slice-not-tried"} <= names(found)
    assert any("country=FR" in one.text for one in found.findings if one.name == "slice-never-measurable")


def test_a_rate_fails_above_its_level_by_two_standard_errors() -> None:
    def of(count: int) -> Rate:
        return Rate(name="x", meaning="", count=count, nights=2000, level=0.05)

    assert not of(119).failed
    assert of(120).failed


def test_nights_that_the_time_was_too_short_for_are_named_with_the_error_of_a_rate() -> None:
    given = ranked(60)
    found = checked(given, keys("ndcg@10"), nights=1000, seconds=0)
    assert {one.name: one.nights for one in found.rates} == {"exchanged": 200, "at-margin": 200}
    assert "repeated" in found.cut
    assert not found.passed
    assert answer(found).startswith("NOT CHECKED: no time was left for ")
    named = next(one for one in found.findings if one.name == "fewer-nights")
    assert named.text == "0 s allowed 200 of 1,000 nights: a rate of 5 % has a standard error of 1.54 %"
    assert named.remedy.startswith("give --seconds 60 ")


def test_a_pipeline_with_clusters_is_simulated_by_clusters_and_keeps_its_word() -> None:
    given = of_users(150, 20, seed=1)
    rows = Rows(label=given.rows.label, offsets=None, cluster=given.others["user_id"].codes)
    found = checked(sample(rows, given.candidate, given.baseline, others=given.others), keys("logloss"), nights=200)
    assert (found.unit, found.units) == ("clusters", 150)
    assert "clusters" not in names(found)
    assert not rate(found, "exchanged").failed
    assert not rate(found, "at-margin").failed
