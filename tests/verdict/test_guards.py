from dataclasses import replace

import numpy as np
import pytest

from ratchet.contracts.judgements import Interval
from ratchet.contracts.losses import Loss
from ratchet.metrics.measurement import ratio
from ratchet.metrics.metrics import Floats, Measurement, Rows, measure
from ratchet.verdict.comparison import Comparison
from ratchet.verdict.guards import judge_floor, judge_latency, judge_metric, judge_size, judge_slices
from ratchet.verdict.slices import SliceComparison


def sliced(value: str, gain: float | None) -> SliceComparison:
    """A slice with a gain whose standard error is 1 %; None: it cannot be measured."""
    found = None
    if gain is not None:
        interval = Interval(value=gain, low=gain - 0.0165, high=gain + 0.0165)
        found = Comparison(gain=interval, spread=0.01, effective=300, confidence=0.95)
    return SliceComparison(column="country", value=value, rows=10, candidate=0.5, baseline=0.5, comparison=found)


def outcomes(*slices: SliceComparison, max_loss: float = 0.02) -> dict[str, str]:
    return {one.value: one.outcome for one in judge_slices(list(slices), max_loss=max_loss, confidence=0.95)}


@pytest.mark.parametrize(
    ("gain", "outcome"),
    [
        (-0.038, "failed"),
        (-0.035, "not-provable"),
        (-0.004, "not-provable"),
        (-0.003, "passed"),
        (None, "not-provable"),
    ],
)
def test_a_slice_passes_or_fails_only_with_a_proof(gain: float | None, outcome: str) -> None:
    assert outcomes(sliced("a", gain)) == {"a": outcome}


def test_of_many_slices_one_fails_only_if_chance_does_not_explain_its_loss() -> None:
    """With 50 slices of equal models, some lose three standard errors; a loss of four is none of them."""
    others = [sliced(f"other-{number}", 0.0) for number in range(49)]
    assert outcomes(sliced("lost", -0.03), *others, max_loss=0.01)["lost"] == "not-provable"
    assert outcomes(sliced("lost", -0.04), *others, max_loss=0.01)["lost"] == "failed"


LABEL = np.random.default_rng(0).normal(size=800)
NOISE = np.random.default_rng(1).normal(size=(3, 800))


def measured(noise: Floats) -> Measurement:
    found = measure("mae", Rows(label=LABEL, offsets=None), LABEL + noise)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("worse", "loss", "outcome"),
    [
        (0.0, Loss(relative=0.02), "passed"),
        (0.1, Loss(relative=0.02), "failed"),
        (0.1, Loss(absolute=0.2), "passed"),
        (0.1, Loss(absolute=0.01), "failed"),
    ],
)
def test_another_metric_may_lose_so_much(worse: float, loss: Loss, outcome: str) -> None:
    found = judge_metric("mae", measured(NOISE[0] * (1 + worse)), measured(NOISE[0]), loss, confidence=0.95, seed=0)
    assert found.outcome == outcome


def test_an_absolute_loss_stays_absolute_over_a_champion_of_nothing() -> None:
    """Over 1e-17 a gain is absolute; a limit that was divided by that would let everything pass."""
    values = 0.01 * NOISE[0] - 0.01 * NOISE[0].mean()

    def balance(level: float) -> Measurement:
        sums = np.stack([values + level, np.ones(800)], axis=1)
        return Measurement(value=float(sums[:, 0].mean()), sums=sums, combine=ratio, information=np.ones((800, 1)))

    worse = replace(balance(-0.3), sums=balance(-0.3).sums + np.stack([0.001 * NOISE[1], np.zeros(800)], axis=1))
    loss = Loss(absolute=0.05)
    found = judge_metric("r2", worse, balance(1e-17), loss, confidence=0.95, seed=0)
    assert (found.outcome, found.limit) == ("failed", 0.05)
    assert found.found is not None
    assert found.found.value == pytest.approx(-0.3, abs=0.01)


def test_another_metric_without_a_value_is_not_provable() -> None:
    loss = Loss(relative=0.01)
    assert judge_metric("mae", measured(NOISE[0]), None, loss, confidence=0.95, seed=0).outcome == "not-provable"
    unlike = judge_metric("mae", measured(NOISE[1]), measured(NOISE[0]), loss, confidence=0.95, seed=0)
    assert unlike.outcome == "not-provable"


def test_a_floor_is_held_to_the_bound_of_the_candidate_s_own_value() -> None:
    mine = measured(NOISE[0])

    def judged(floor: float) -> str:
        return judge_floor("mae", mine, floor, confidence=0.95, seed=0).outcome

    assert (judged(mine.value * 1.2), judged(mine.value * 0.8)) == ("passed", "failed")
    assert judged(mine.value * 1.001) == "not-provable"
    assert judge_floor("mae", None, 1.0, confidence=0.95, seed=0).outcome == "not-provable"
    found = judge_floor("mae", mine, 1.0, confidence=0.95, seed=0).found
    assert found is not None
    spread = np.abs(NOISE[0]).std() / 800**0.5
    low, high = (mine.value - found.low) / spread, (found.high - mine.value) / spread
    # The bounds of a normal distribution, and -ln(5 %) units that nobody has seen, as far away as the furthest one.
    furthest = np.abs(np.abs(NOISE[0]) - mine.value).max()
    unseen = np.log(20) * furthest / 800 / spread
    assert 1.645 < low < 1.645 + unseen + 0.2
    assert 1.645 < high < 1.645 + unseen + 0.2


def test_a_latency_needs_times_and_a_few_slow_turns_do_not_decide_it() -> None:
    steady = [(1.1, 1.0)] * 12 + [(9.0, 1.0)] * 3
    assert judge_latency(steady, 1.5, confidence=0.95).outcome == "passed"
    assert judge_latency(steady, 1.05, confidence=0.95).outcome == "failed"
    assert judge_latency([(1.1, 1.0)] * 8 + [(9.0, 1.0)] * 7, 1.5, confidence=0.95).outcome == "not-provable"
    assert judge_latency([(1.0, 1.0)] * 3, 1.5, confidence=0.95).outcome == "not-provable"
    assert judge_latency([], 1.5, confidence=0.95).outcome == "not-provable"


def test_equal_models_are_seldom_called_slow() -> None:
    generator = np.random.default_rng(3)
    draws = generator.lognormal(sigma=0.3, size=(500, 15, 2))
    failed = [judge_latency([tuple(pair) for pair in night], 1.0, confidence=0.95).outcome for night in draws]
    assert failed.count("failed") <= 0.06 * 500


def test_a_size_is_a_ratio() -> None:
    assert [judge_size(20, base, 1.5).outcome for base in (20, 10, None, 0)] == [
        "passed", "failed", "not-provable", "not-provable",
    ]  # fmt: skip


def test_a_slice_that_loses_three_times_the_allowed_is_stopped_among_fifty_and_equal_models_are_not() -> None:
    """The standard error is that of NDCG@10 on 200 groups."""
    generator, error, nights = np.random.default_rng(4), 0.0123, 200

    def is_stopped(loss: float) -> bool:
        gains = generator.normal(scale=error, size=50) - loss * (np.arange(50) == 0)
        slices = [
            SliceComparison(
                column="country", value=str(place), rows=10, candidate=0.5, baseline=0.5,
                comparison=Comparison(
                    gain=Interval(value=gain, low=gain - 1.645 * error, high=gain + 1.645 * error),
                    spread=error, effective=200, confidence=0.95,
                ),
            )
            for place, gain in enumerate(gains.tolist())
        ]  # fmt: skip
        return "failed" in {one.outcome for one in judge_slices(slices, max_loss=0.02, confidence=0.95)}

    assert sum(is_stopped(0.06) for _ in range(nights)) >= 0.88 * nights
    assert sum(is_stopped(0.0) for _ in range(nights)) <= 0.08 * nights
