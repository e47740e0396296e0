"""The learning rate rises, stays level, and falls to nothing at the end, as a function of the step and the fall alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.train.schedule import Fall, early_fall, learning_rate, planned_fall, warm_up


def planned(epochs: int, *, steps: int = 10**9) -> Fall:
    return planned_fall(steps=steps, epochs=epochs, level_epoch=16, fall_epoch=18)


@given(st.integers(1, 400), st.integers(1, 5000))
def test_the_rate_rises_stays_level_and_falls(epochs: int, steps: int) -> None:
    fall = planned(epochs, steps=steps)
    rates = [learning_rate(step, total=fall.end, fall=fall, peak=0.3) for step in range(fall.end)]
    assert 0 < len(rates) <= steps
    assert all(0 < rate <= 0.3 for rate in rates)
    rise = warm_up(fall.end)
    assert rates[:rise] == sorted(rates[:rise])
    assert rates[rise : fall.begin] == pytest.approx([0.3] * max(fall.begin - rise, 0))
    late = rates[max(rise, fall.begin) :]
    assert late == sorted(late, reverse=True)
    assert rates[-1] <= 0.3 / fall.steps + 1e-9


@pytest.mark.parametrize(("epochs", "level", "fall"), [(1, 0, 1), (2, 1, 1), (3, 2, 1), (10, 8, 2), (40, 32, 8)])
def test_both_parts_are_whole_epochs(epochs: int, level: int, fall: int) -> None:
    assert planned(epochs) == Fall(begin=16 * level, steps=18 * fall, level=16 * level)


def test_with_fewer_steps_a_fifth_of_them_falls() -> None:
    assert planned(40, steps=100) == Fall(begin=80, steps=20, level=80)
    assert planned(40, steps=1) == Fall(begin=0, steps=1, level=0)
    assert learning_rate(0, total=1, fall=planned(40, steps=1), peak=0.3) == 0.3


def test_the_warm_up_is_a_twentieth_of_the_steps_and_at_most_a_hundred() -> None:
    rates = [learning_rate(step, total=100, fall=planned(40, steps=100), peak=1.0) for step in range(6)]
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])
    assert warm_up(100_000) == 100


@given(st.integers(1, 4000), st.integers(0, 500), st.integers(1, 300))
def test_an_early_fall_has_half_the_steps_to_the_best_one_but_an_epoch_at_least(
    best: int, more: int, epoch: int
) -> None:
    fall = early_fall(best + more, best=best, epoch=epoch, most=1000)
    assert (fall.begin, fall.level, fall.end) == (best + more, best, best + more + fall.steps)
    assert fall.steps == min(max(round(best / 2), epoch), 1000)
