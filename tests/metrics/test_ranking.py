import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn import metrics as reference

from ratchet.metrics.ranking import mrr, ndcg

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=12)
SEEDS = st.integers(0, 2**32 - 1)


def ranked(sizes: list[int], seed: int, levels: int, grades: int) -> tuple[NDArray[np.float64], ...]:
    """Labels, scores with ties, and offsets."""
    rng = np.random.default_rng(seed)
    rows = sum(sizes)
    label = rng.integers(0, grades, rows).astype(np.float64)
    return label, rng.integers(0, levels, rows) / 7, np.append(0, np.cumsum(sizes))


@given(SIZES, SEEDS, st.sampled_from([2, 5, 10**6]), st.integers(2, 4), st.integers(1, 12))
def test_ndcg_is_that_of_scikit_learn_ties_included(
    sizes: list[int], seed: int, levels: int, grades: int, cut: int
) -> None:
    label, score, offsets = ranked(sizes, seed, levels, grades)
    for found, begin, end in zip(ndcg(label, score, offsets, cut), offsets[:-1], offsets[1:], strict=True):
        if not label[begin:end].any():
            assert np.isnan(found)
        elif end - begin > 1:
            expected = reference.ndcg_score(label[None, begin:end], score[None, begin:end], k=cut)
            assert found == pytest.approx(expected, abs=1e-12)


@given(st.integers(1, 6), SEEDS, st.integers(1, 7))
def test_mrr_is_the_mean_over_every_order_of_tied_rows(size: int, seed: int, cut: int) -> None:
    label, score, offsets = ranked([size], seed, 3, 2)
    found = mrr(label, score, offsets, cut)[0]
    values = []
    for order in itertools.permutations(range(size)):
        if all(score[a] >= score[b] for a, b in itertools.pairwise(order)):
            rank = next((place for place, row in enumerate(order, start=1) if label[row]), np.nan)
            values.append(rank if np.isnan(rank) else (1 / rank if rank <= cut else 0.0))
    np.testing.assert_allclose(found, np.mean(values), atol=1e-12)


def test_without_groups_there_are_no_values() -> None:
    nothing = np.empty(0)
    assert ndcg(nothing, nothing, np.zeros(1, np.int64), 10).shape == (0,)
    assert mrr(nothing, nothing, np.zeros(1, np.int64), 10).shape == (0,)


def test_the_order_of_stored_rows_does_not_matter() -> None:
    label, score, offsets = ranked([5, 5, 5], 1, 2, 3)
    turned = np.concatenate([np.arange(end - 1, begin - 1, -1) for begin, end in itertools.pairwise(offsets)])
    np.testing.assert_allclose(ndcg(label, score, offsets, 3), ndcg(label[turned], score[turned], offsets, 3))
    np.testing.assert_allclose(mrr(label, score, offsets, 3), mrr(label[turned], score[turned], offsets, 3))
