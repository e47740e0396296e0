"""The learning rate rises to its peak and falls to a tenth of it, as a function of the step alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.train.schedule import learning_rate


@given(st.integers(2, 500))
def test_the_rate_rises_to_the_peak_and_then_falls(total: int) -> None:
    rates = [learning_rate(step, total=total, peak=0.3) for step in range(total + 1)]
    top = rates.index(max(rates))
    assert max(rates) == pytest.approx(0.3)
    assert 0 < rates[0] <= 0.3
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert rates[-1] == pytest.approx(0.03)


def test_the_first_twentieth_of_the_steps_is_the_warm_up() -> None:
    rates = [learning_rate(step, total=100, peak=1.0) for step in range(6)]
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])
