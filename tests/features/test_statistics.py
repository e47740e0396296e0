import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.features.statistics import count_ids, merge, moments, vocabulary

DAYS = st.lists(st.lists(st.floats(-1e6, 1e6, width=32), max_size=30), min_size=1, max_size=5)


@given(DAYS)
def test_days_merge_to_the_moments_of_all_values(days: list[list[float]]) -> None:
    whole = merge(moments(np.array(day, np.float32)) for day in days)
    values = np.array([value for day in days for value in day])
    assert whole.count == len(values)
    if len(values):
        assert whole.mean == pytest.approx(values.mean(), rel=1e-9, abs=1e-6)
        assert (whole.m2 / whole.count) ** 0.5 == pytest.approx(values.std(), rel=1e-6, abs=1e-3)


def test_a_transform_comes_first_and_missing_values_do_not_count() -> None:
    found = moments(np.float32([0, np.nan, np.e - 1, -5]), "log1p")
    assert found.count == 2
    assert found.mean == pytest.approx(0.5)


def test_the_deviation_of_a_constant_column_is_1() -> None:
    assert moments(np.float32([5, 5])).std == 1
    assert moments(np.float32([])).std == 1
    for constant in (0.1, 1e-30, 1.7e18, -3.3e38):
        assert merge(moments(np.full(count, constant)) for count in (1, 7, 1000)).std == 1


@given(st.floats(1e-30, 1e30), st.floats(-1e6, 1e6))
def test_the_deviation_of_a_column_does_not_depend_on_its_unit(unit: float, middle: float) -> None:
    values = middle + np.linspace(-1, 1, 50)
    assert moments(values * unit).std == pytest.approx(moments(values).std * unit, rel=1e-6)


def test_a_value_of_weight_two_counts_as_two_values() -> None:
    draw = np.random.default_rng(0)
    values, weight = draw.normal(50, 3, 400), draw.integers(0, 4, 400)
    days = [moments(values[part], weight=weight[part].astype(float)) for part in (slice(0, 150), slice(150, 400))]
    whole, repeated = merge(days), moments(np.repeat(values, weight))
    assert whole.count == repeated.count == weight.sum()
    assert (whole.mean, whole.std) == (pytest.approx(repeated.mean), pytest.approx(repeated.std))
    assert moments(values, weight=np.zeros(400)).count == 0


@given(st.lists(st.lists(st.integers(-3, 3)), min_size=1, max_size=4), st.integers(1, 4))
def test_the_vocabulary_holds_what_occurs_often_enough_over_all_days(days: list[list[int]], least: int) -> None:
    counts = [count_ids(np.array([[value, 0] for value in day], np.int64).reshape(-1, 2)) for day in days]
    values = [value for day in days for value in day]
    assert vocabulary(counts, 0, least).tolist() == sorted({v for v in values if values.count(v) >= least})
    assert vocabulary(counts, 1, least).tolist() == ([0] if len(values) >= least else [])
