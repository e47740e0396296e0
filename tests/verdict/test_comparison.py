import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.metrics import measurement
from ratchet.metrics.metrics import Floats, Measurement, Rows, measure
from ratchet.verdict import resampling
from ratchet.verdict.comparison import MIN_UNITS, Comparison, compare
from ratchet.verdict.guards import holm
from ratchet.verdict.resampling import resample
from ratchet.verdict.student import expanded_tail


def mean_of(values: Floats) -> Measurement:
    sums = np.stack([values, np.ones(len(values))], axis=1)
    return Measurement(
        value=float(values.mean()),
        sums=sums,
        combine=lambda total: total[..., 0] / total[..., 1],
        information=np.ones((len(values), 1)),
    )


def nights(*, units: int, gain: float, count: int, noise: float = 0.3) -> Iterator[Comparison]:
    """Comparisons of a candidate whose true relative gain over the baseline (of mean 1/3) is known."""
    for seed in range(count):
        generator = np.random.default_rng(seed)
        baseline = generator.beta(1, 2, units)
        candidate = baseline * (1 + gain) + noise * (generator.beta(1, 2, units) - 1 / 3)
        yield compare(
            mean_of(candidate), mean_of(baseline), lower_is_better=False, confidence=0.95, seed=seed, resamples=500
        )


@pytest.mark.parametrize("units", [15, 60, 400])
def test_a_gain_of_just_the_margin_is_promoted_no_more_often_than_the_confidence_allows(units: int) -> None:
    count, margin = 600, 0.02
    promoted = sum(one.gain.low > margin for one in nights(units=units, gain=margin, count=count))
    assert promoted / count <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / count)


def test_the_bound_is_not_needlessly_low() -> None:
    count = 600
    below = sum(one.gain.low < 0.02 for one in nights(units=400, gain=0.02, count=count))
    assert below / count <= 0.975


def test_the_smallest_visible_gain_is_seen_four_times_out_of_five() -> None:
    margin, units = 0.005, 300
    visible = np.mean([one.smallest_visible(margin) for one in nights(units=units, gain=margin, count=100)])
    seen = np.mean([one.gain.low > margin for one in nights(units=units, gain=float(visible), count=400)])
    assert 0.72 <= seen <= 0.88


def test_a_rare_label_keeps_the_promise_too() -> None:
    """Two scorers of equal AUC by construction, 40 positives: neither may seem better more often than allowed."""
    count, promoted = 400, 0
    for seed in range(count):
        generator = np.random.default_rng(seed)
        label = np.zeros(2000)
        label[:40] = 1
        rows = Rows(label=label, offsets=None)
        one, other = (measure("auc", rows, generator.normal(size=2000) + label) for _ in range(2))
        found = compare(one, other, lower_is_better=False, confidence=0.95, seed=seed, resamples=400)
        promoted += found.gain.low > 0
    assert promoted / count <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / count)


@pytest.mark.parametrize("metric", ["auc", "logloss", "ndcg@5"])
def test_weighted_rows_keep_the_promise_too(metric: str) -> None:
    """Two scorers of equal skill on rows of very unequal weight: neither may seem better more often than allowed."""
    count, promoted = 300, 0
    for seed in range(count):
        generator = np.random.default_rng(seed)
        label = (np.arange(600) % 5 == 0).astype(float)
        rows = Rows(
            label=label,
            offsets=np.arange(0, 601, 10) if metric == "ndcg@5" else None,
            weight=np.repeat(generator.lognormal(0, 1, 60), 10)
            if metric == "ndcg@5"
            else generator.lognormal(0, 1, 600),
        )
        one, other = (measure(metric, rows, 1 / (1 + np.exp(1 - label - generator.normal(size=600)))) for _ in range(2))
        assert one is not None
        assert other is not None
        found = compare(one, other, lower_is_better=metric == "logloss", confidence=0.95, seed=seed, resamples=400)
        promoted += found.gain.low > 0
    assert promoted / count <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / count)


def test_groups_and_not_rows_are_what_is_resampled() -> None:
    generator = np.random.default_rng(0)
    label, guess = np.repeat(generator.normal(size=(2, 50)), 40, axis=1)
    alone = Rows(label=label, offsets=None)
    grouped = Rows(label=label, offsets=np.arange(0, 2001, 40))
    spreads = [
        compare(
            measure("mae", rows, guess), measure("mae", rows, guess * 0), lower_is_better=True, confidence=0.95, seed=0
        ).spread
        for rows in (alone, grouped)
    ]
    assert spreads[1] / spreads[0] == pytest.approx(math.sqrt(40), rel=0.2)


def test_the_weights_have_mean_and_variance_one() -> None:
    weights = resampling._WEIGHTS
    assert len(weights) == 256
    assert weights.mean() == 1
    assert weights.var() == 1


def test_summing_into_blocks_leaves_the_spread_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(size=(20_000, 1))
    blocked = resample(values, resamples=2000, seed=0).std()
    monkeypatch.setattr(measurement, "MAX_BLOCKS", 20_000)
    assert blocked == pytest.approx(resample(values, resamples=2000, seed=0).std(), rel=0.08)


def test_the_same_seed_gives_the_same_interval() -> None:
    first, second = (next(nights(units=100, gain=0.0, count=1)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("units", [10, 30, 1000])
def test_the_tail_is_pushed_out_as_students_t_asks(units: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    wanted = stats.norm.cdf(stats.t.ppf(0.05, units - 1) * math.sqrt(units / (units - 1)))
    assert expanded_tail(0.05, units) == pytest.approx(wanted, rel=0.02)


def test_equal_models_gain_exactly_nothing() -> None:
    values = np.random.default_rng(0).random(100)
    found = compare(mean_of(values), mean_of(values), lower_is_better=False, confidence=0.95, seed=0)
    assert (found.gain.low, found.gain.value, found.gain.high, found.spread) == (0, 0, 0, 0)


def test_one_unit_concludes_nothing() -> None:
    found = compare(mean_of(np.ones(1) * 2), mean_of(np.ones(1)), lower_is_better=False, confidence=0.95, seed=0)
    assert found.gain.low == found.gain.high == 1.0
    assert not found.measurable


@pytest.mark.parametrize("tailed", [False, True])
@pytest.mark.parametrize("lower_is_better", [False, True])
def test_the_bounds_over_a_baseline_that_cancels_to_nothing_are_absolute(
    *, lower_is_better: bool, tailed: bool
) -> None:
    noise = np.random.default_rng(0).normal(size=400)
    baseline = np.concatenate([noise, -noise]) * 0.01 + 1e-17
    candidate = np.concatenate([noise, noise]) * 0.01 + 0.08
    one, other = (replace(mean_of(values), tailed=tailed) for values in (candidate, baseline))
    assert abs(other.value) < 1e-12
    found = compare(one, other, lower_is_better=lower_is_better, confidence=0.95, seed=0)
    sign = -1 if lower_is_better else 1
    assert found.gain.value == pytest.approx(sign * candidate.mean(), abs=1e-9)
    assert found.gain.low == pytest.approx(found.gain.value, abs=0.005)
    assert found.gain.high == pytest.approx(found.gain.value, abs=0.005)
    assert found.spread < 0.002


def test_holm_stops_at_the_first_that_holds() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005], 0.05) == [True, False, False, True]
    assert holm([0.06, 0.001], 0.05) == [False, True]
    assert holm([], 0.05) == []


@given(st.lists(st.floats(0, 1), max_size=20), st.floats(0.001, 0.2))
def test_holm_refutes_at_least_what_bonferroni_does_and_no_more_than_each_alone(
    p_values: list[float], level: float
) -> None:
    for p_value, refuted in zip(p_values, holm(p_values, level), strict=True):
        assert refuted or p_value > level / len(p_values)
        assert not refuted or p_value <= level


def test_a_constant_probability_does_not_win_a_calibration_error_by_its_one_bin() -> None:
    """Both err by 0.06 in truth; the other model has fifteen bins, and noise adds to the distance of each."""
    promoted, before, count = 0, 0, 200
    for seed in range(count):
        generator = np.random.default_rng(seed)
        chance = generator.uniform(0.06, 0.94, 300)
        rows = Rows(label=(generator.random(300) < chance).astype(float), offsets=None)
        one, other = measure("ece", rows, np.full(300, 0.56)), measure("ece", rows, chance + 0.06)
        assert one
        assert other
        judge = partial(compare, lower_is_better=True, confidence=0.95, seed=seed, resamples=400)
        promoted += judge(one, other).gain.low > 0
        before += judge(replace(one, noise=0.0), replace(other, noise=0.0)).gain.low > 0
    assert promoted / count <= 0.05
    assert before / count > 0.2


@pytest.mark.parametrize("tailed", [False, True])
def test_the_bounds_at_another_confidence_are_those_of_a_comparison_at_it(tailed: bool) -> None:
    draw = np.random.default_rng(9)
    loss = draw.exponential(size=(2, 500)) + 1
    one, other = (replace(mean_of(values), tailed=tailed) for values in loss)

    def at(confidence: float) -> Comparison:
        return compare(one, other, lower_is_better=True, confidence=confidence, seed=0)

    found = at(0.95)
    assert found.bounds_at(0.95) == found.gain
    for confidence in (0.8, 0.9, 0.99):
        assert found.bounds_at(confidence) == at(confidence).gain
    lows, highs = zip(
        *((bounds.low, bounds.high) for bounds in map(found.bounds_at, (0.8, 0.9, 0.95, 0.99))), strict=True
    )
    assert list(lows) == sorted(lows, reverse=True)
    assert list(highs) == sorted(highs)


def test_where_nothing_varies_the_bounds_are_the_gain_at_each_confidence() -> None:
    same = mean_of(np.ones(100))
    found = compare(same, same, lower_is_better=False, confidence=0.95, seed=0)
    assert found.bounds_at(0.99) == found.gain
    assert found.gain.low == found.gain.high == 0.0


@pytest.mark.parametrize(
    ("tailed", "confidence", "least"),
    [(False, 0.95, 30), (False, 0.999, 30), (True, 0.8, 107), (True, 0.95, 199), (True, 0.99, 305)],
)
def test_so_many_units_are_the_least_from_which_something_is_concluded(
    tailed: bool, confidence: float, least: int
) -> None:
    for units in (least - 1, least):
        values = np.random.default_rng(10).random((2, units)) + 1
        one, other = (replace(mean_of(each), tailed=tailed) for each in values)
        found = compare(one, other, lower_is_better=True, confidence=confidence, seed=0, resamples=200)
        assert (found.effective, found.required) == (units, least)
        assert found.measurable == (units == least)
        said = f"only {units} users tell the models apart, at least {least} are required"
        assert found.why_not("users") == ("" if found.measurable else said)


def test_units_on_which_the_models_agree_are_not_counted() -> None:
    values = np.random.default_rng(11).random(500)
    other = values.copy()
    other[: MIN_UNITS - 1] += 0.1
    found = compare(mean_of(other), mean_of(values), lower_is_better=False, confidence=0.95, seed=0)
    assert (found.effective, found.trouble) == (MIN_UNITS - 1, "too-few-units")
