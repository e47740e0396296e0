"""A summary of a day is small, and the edges from those of all days have about equally many rows between them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.features.quantiles import POINTS, edges, summarise


@given(st.lists(st.lists(st.integers(-50, 50), max_size=80), min_size=1, max_size=4))
def test_a_summary_of_few_values_is_exact(days: list[list[int]]) -> None:
    found = [summarise(np.array(day, np.float64), 0, None) for day in days]
    for day, summary in zip(days, found, strict=True):
        unique, count = np.unique(day, return_counts=True)
        assert summary[:, 1].tolist() == unique.tolist()
        assert summary[:, 2].tolist() == count.tolist()
    values = sorted({value for day in days for value in day})
    ends = edges(found, 0, 1000)
    assert ends.tolist() == values


@pytest.mark.parametrize("draw", ["normal", "lognormal", "standard_cauchy"])
def test_the_edges_of_several_days_are_quantiles_of_all_their_rows(draw: str) -> None:
    generator = np.random.default_rng(0)
    days = [getattr(generator, draw)(size=size) + day for day, size in enumerate((30_000, 500, 7_000))]
    found = [summarise(day, 0, None) for day in days]
    assert max(len(summary) for summary in found) == POINTS
    ends = edges(found, 0, 48)
    assert len(ends) == 49
    every = np.sort(np.concatenate(days))
    ranks = np.searchsorted(every, ends[1:-1]) / len(every)
    np.testing.assert_allclose(ranks, np.arange(1, 48) / 48, atol=2 / POINTS)


def test_a_transform_comes_first_and_missing_values_are_left_out() -> None:
    np.testing.assert_allclose(summarise(np.array([0.0, np.e - 1, -5.0]), 0, "log1p"), [[0, 0, 1], [0, 1, 1]])
    np.testing.assert_allclose(summarise(np.array([1.0, np.nan, 1.0]), 1, None), [[1, 1, 2]])


def test_a_value_that_most_rows_have_is_one_edge() -> None:
    values = np.append(np.zeros(9_000), np.linspace(1, 2, 1_000))
    ends = edges([summarise(values, 0, None)], 0, 48)
    assert ends[0] == 0
    assert 4 <= len(ends) <= 8
    assert edges([summarise(np.full(5, np.nan), 0, None)], 0, 48).tolist() == []
    assert edges([summarise(np.full(5, 3.0), 0, None)], 0, 48).tolist() == [3.0]
