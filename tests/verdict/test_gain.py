"""The gain over a baseline, whatever its size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.verdict.gain import relative_gain


@given(st.floats(0.01, 100), st.floats(0.01, 100))
def test_a_gain_is_positive_exactly_where_the_candidate_is_better(candidate: float, baseline: float) -> None:
    one, other = np.array([candidate]), np.array([baseline])
    assert (relative_gain(one, other, lower_is_better=False) > 0) == (candidate > baseline)
    assert (relative_gain(one, other, lower_is_better=True) > 0) == (candidate < baseline)


def test_over_a_baseline_of_zero_the_gain_is_absolute() -> None:
    assert relative_gain(np.array([0.25]), np.array([0.0]), lower_is_better=False) == [0.25]


@pytest.mark.parametrize("nothing", [1e-17, -1e-17, 0.25e-12])
@pytest.mark.parametrize("lower_is_better", [False, True])
def test_over_what_rounding_has_left_of_zero_the_gain_is_absolute_too(nothing: float, *, lower_is_better: bool) -> None:
    one, other = np.array([0.25]), np.array([nothing])
    sign = -1 if lower_is_better else 1
    assert relative_gain(one, other, lower_is_better=lower_is_better) == pytest.approx([sign * 0.25])


@given(st.floats(1e-12, 1.0), st.floats(1e-150, 1e150))
def test_the_unit_of_a_metric_changes_no_gain(share: float, unit: float) -> None:
    """Small values are not nothing by themselves: a baseline counts by its share of the candidate."""
    one, other = np.array([unit]), np.array([1.01 * share * unit])
    found = relative_gain(one, other, lower_is_better=False)
    assert found == pytest.approx((one - other) / other)
