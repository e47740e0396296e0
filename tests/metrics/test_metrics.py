import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn import metrics as reference

from ratchet.metrics.metrics import Measurement, Rows, constant, measure
from ratchet.metrics.ranking import average_precision, mrr, ndcg, precision, recall

Groups = list[list[tuple[int, int]]]
GROUPED = st.lists(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=5), min_size=1, max_size=4
)


def whole(metric: str, label: Any, score: Any, offsets: NDArray[np.int64] | None = None) -> Measurement:
    found = measure(metric, Rows(label=np.asarray(label, float), offsets=offsets), np.asarray(score, float))
    assert found is not None
    return found


def every_order(label: list[int], score: list[int], value: Callable[[list[int]], float]) -> float:
    """The mean of a metric over all orders in which ties can be broken."""
    values = []
    for order in itertools.permutations(range(len(label))):
        by_score = sorted(order, key=lambda row: -score[row])
        values.append(value([label[row] for row in by_score]))
    return float(np.mean(values))


def dcg(labels: list[int], cut: int) -> float:
    return sum(label / np.log2(place + 2) for place, label in enumerate(labels[:cut]))


def reciprocal(labels: list[int], cut: int) -> float:
    return next((1 / (place + 1) for place, label in enumerate(labels[:cut]) if label), 0.0)


@given(GROUPED, st.integers(1, 6))
def test_ties_count_as_the_mean_over_all_their_orders(groups: Groups, cut: int) -> None:
    offsets = np.cumsum([0, *map(len, groups)])
    label = np.array([row[0] for group in groups for row in group], float)
    score = np.array([row[1] for group in groups for row in group], float)
    found = ndcg(label, score, offsets, cut), mrr(label, score, offsets, cut)
    for index, group in enumerate(groups):
        labels, scores = [row[0] for row in group], [row[1] for row in group]
        if not any(labels):
            assert np.isnan(found[0][index])
            assert np.isnan(found[1][index])
            continue
        ideal = dcg(sorted(labels, reverse=True), cut)
        expected = every_order(labels, scores, lambda ranked, ideal=ideal: dcg(ranked, cut) / ideal)
        assert found[0][index] == pytest.approx(expected)
        assert found[1][index] == pytest.approx(every_order(labels, scores, lambda ranked: reciprocal(ranked, cut)))


def test_graded_labels_give_the_ndcg_of_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    label, score = generator.integers(0, 4, (30, 12)), generator.normal(size=(30, 12))
    found = whole("ndcg@5", label.ravel(), score.ravel(), np.arange(0, 361, 12))
    assert found.value == pytest.approx(reference.ndcg_score(label, score, k=5, ignore_ties=True))


def test_a_constant_scorer_has_the_ndcg_of_random_order_wherever_the_clicks_are_stored() -> None:
    label = np.zeros(40)
    label[::10] = 1  # the first of each group: a stable sort would call this perfect
    rows = Rows(label=label, offsets=np.arange(0, 41, 10))
    found = measure("ndcg@10", rows, constant("ranking", "ndcg@10", rows))
    assert found is not None
    assert found.value == pytest.approx(np.mean(1 / np.log2(np.arange(10) + 2)))


@pytest.mark.parametrize("decimals", [1, 6])
def test_binary_metrics_are_those_of_scikit_learn_with_and_without_ties(decimals: int) -> None:
    generator = np.random.default_rng(1)
    label = generator.integers(0, 2, 500)
    score = np.clip(np.round(generator.random(500) * 0.5 + label * 0.3, decimals), 0.01, 0.99)
    assert whole("auc", label, score).value == pytest.approx(reference.roc_auc_score(label, score))
    assert whole("pr_auc", label, score).value == pytest.approx(reference.average_precision_score(label, score))
    assert whole("logloss", label, score).value == pytest.approx(reference.log_loss(label, score))


def test_regression_metrics_are_those_of_scikit_learn() -> None:
    generator = np.random.default_rng(2)
    label, score = generator.normal(size=(2, 300))
    assert whole("rmse", label, score).value == pytest.approx(reference.root_mean_squared_error(label, score))
    assert whole("mae", label, score).value == pytest.approx(reference.mean_absolute_error(label, score))


def test_multiclass_metrics_are_those_of_scikit_learn() -> None:
    generator = np.random.default_rng(3)
    label, chances = generator.integers(0, 3, 300), generator.dirichlet(np.ones(3), 300)
    assert whole("accuracy", label, chances).value == pytest.approx((chances.argmax(1) == label).mean())
    assert whole("logloss", label, chances).value == pytest.approx(reference.log_loss(label, chances))


def test_a_class_that_a_model_does_not_know_is_a_miss() -> None:
    assert whole("accuracy", [0, 2], [[0.9, 0.1], [0.9, 0.1]]).value == 0.5
    assert whole("logloss", [2], [[0.9, 0.1]]).value == pytest.approx(-np.log(1e-7))


@pytest.mark.parametrize("metric", ["auc", "pr_auc"])
def test_influences_predict_a_reweighted_metric(metric: str) -> None:
    generator = np.random.default_rng(4)
    label = generator.random(2000) < 0.1
    score = np.round(generator.random(2000) + 0.5 * label, 2)
    weight = generator.poisson(1, 2000)
    found = whole(metric, label, score)
    function = reference.roc_auc_score if metric == "auc" else reference.average_precision_score
    moved = function(label, score, sample_weight=weight)
    guessed = float(found.combine(weight @ found.sums))
    assert guessed == pytest.approx(moved, abs=0.2 * abs(moved - found.value) + 2e-4)


def test_average_precision_of_a_resample_is_that_of_scikit_learn() -> None:
    """More positives than steps too: there the draw is off by a small part of its own deviation."""
    generator = np.random.default_rng(6)
    for share, allowed in ((0.05, 1e-12), (0.4, 1e-3)):
        label = generator.random(2000) < share
        score = generator.random(2000) + 0.5 * label
        weight = generator.poisson(1, 2000).astype(float)
        found = whole("pr_auc", label, score)
        moved = reference.average_precision_score(label, score, sample_weight=weight)
        assert float(found.combine(weight @ found.sums)) == pytest.approx(moved, abs=allowed)


@given(GROUPED, st.integers(1, 6))
def test_counts_of_hits_are_their_means_over_all_orders_of_ties(groups: Groups, cut: int) -> None:
    offsets = np.cumsum([0, *map(len, groups)])
    label, score = np.array([row for group in groups for row in group], float).T
    found = [metric(label, score, offsets, cut) for metric in (average_precision, precision, recall)]
    for index, group in enumerate(groups):
        labels, scores = [row[0] for row in group], [row[1] for row in group]
        positives = sum(labels)
        if not positives:
            assert all(np.isnan(values[index]) for values in found)
            continue

        def average(ranked: list[int], positives: int = positives) -> float:
            at = [sum(ranked[: place + 1]) / (place + 1) for place in range(min(cut, len(ranked))) if ranked[place]]
            return sum(at) / min(positives, cut)

        assert found[0][index] == pytest.approx(every_order(labels, scores, average))
        assert found[1][index] == pytest.approx(every_order(labels, scores, lambda ranked: sum(ranked[:cut]) / cut))
        assert found[2][index] == pytest.approx(
            every_order(labels, scores, lambda ranked, positives=positives: sum(ranked[:cut]) / positives)
        )


def test_more_metrics_are_those_of_scikit_learn() -> None:
    generator = np.random.default_rng(7)
    label, chance = generator.integers(0, 2, 400), generator.random(400)
    assert whole("brier", label, chance).value == pytest.approx(reference.brier_score_loss(label, chance))
    value, guess = generator.normal(size=(2, 400))
    assert whole("r2", value, guess).value == pytest.approx(reference.r2_score(value, guess))
    assert whole("pinball@0.9", value, guess).value == pytest.approx(
        reference.mean_pinball_loss(value, guess, alpha=0.9)
    )
    classes, chances = generator.integers(0, 3, 400), generator.dirichlet(np.ones(3), 400)
    assert whole("macro_f1", classes, chances).value == pytest.approx(
        reference.f1_score(classes, chances.argmax(1), average="macro")
    )


def test_the_calibration_error_is_the_mean_distance_of_the_bins() -> None:
    label, chance = np.array([1.0, 0, 1, 1, 0]), np.array([0.9, 0.91, 0.92, 0.2, 0.21])
    expected = (3 * abs(2.73 / 3 - 2 / 3) + 2 * abs(0.41 / 2 - 1 / 2)) / 5
    assert whole("ece", label, chance).value == pytest.approx(expected)


@pytest.mark.parametrize("metric", ["auc", "logloss", "ndcg@3"])
def test_a_unit_is_a_cluster_where_one_is_named(metric: str) -> None:
    label, score = np.tile([1.0, 0, 0, 1], 30), np.random.default_rng(8).random(120)
    offsets = np.arange(0, 121, 4)
    rows = Rows(label=label, offsets=offsets, cluster=np.repeat(np.arange(10), 12))
    found, alone = measure(metric, rows, score), whole(metric, label, score, offsets)
    assert found is not None
    assert found.value == pytest.approx(alone.value)
    assert found.effective == 10
    np.testing.assert_allclose(found.sums.sum(axis=0), alone.sums.sum(axis=0))


def test_clusters_that_share_a_group_are_one_unit_and_a_row_without_one_is_its_own() -> None:
    grouped = Rows(label=np.zeros(6), offsets=np.array([0, 2, 4, 6]), cluster=np.array([0, 1, 1, 2, 3, -1]))
    assert grouped.unit_of_group is not None
    assert grouped.unit_of_group.tolist() == [0, 0, 1]
    alone = Rows(label=np.zeros(4), offsets=None, cluster=np.array([5, -1, 5, -1]))
    assert alone.unit_of_group is not None
    assert len(set(alone.unit_of_group)) == 3
    assert alone.select(np.array([True, False, True, True])).cluster.tolist() == [5, 5, -1]


METRICS_OF = {
    "binary": ("auc", "pr_auc", "logloss", "brier", "ece"),
    "regression": ("rmse", "mae", "r2", "pinball@0.9"),
    "multiclass": ("accuracy", "macro_f1", "logloss"),
}
CASES = [(objective, metric) for objective, metrics in METRICS_OF.items() for metric in metrics]


def drawn(objective: str, seed: int, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Labels, scores with ties, and whole weights, some of them 0."""
    draw = np.random.default_rng(seed)
    label = draw.integers(0, 3 if objective == "multiclass" else 2, count).astype(float)
    score = np.round(draw.random(count), 1)
    if objective == "multiclass":
        score = np.round(draw.dirichlet(np.ones(3), count), 1)
    return label, score, draw.integers(0, 4, count)


@given(st.sampled_from(CASES), st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_a_row_of_weight_two_is_measured_as_that_row_twice(case: tuple[Any, str], seed: int, count: int) -> None:
    objective, metric = case
    label, score, weight = drawn(objective, seed, count)
    weighted = Rows(label=label, offsets=None, weight=weight.astype(float))
    repeated = Rows(label=np.repeat(label, weight), offsets=None)
    found, counted = measure(metric, weighted, score), measure(metric, repeated, np.repeat(score, weight, axis=0))
    assert (found is None) == (counted is None)
    if found is not None and counted is not None:
        assert found.value == pytest.approx(counted.value, abs=1e-12)
        assert found.combine(found.sums.sum(axis=0)) == pytest.approx(found.value, abs=1e-9)
    if weight.any():
        ours, theirs = constant(objective, metric, weighted), constant(objective, metric, repeated)
        np.testing.assert_allclose(np.resize(ours[0], np.shape(theirs[0])), theirs[0])  # the last class may weigh 0


@given(GROUPED, st.sampled_from(["ndcg@3", "mrr@2", "map@3", "precision@2", "recall@2", "auc", "pr_auc"]), st.data())
def test_a_group_of_weight_two_is_measured_as_that_group_twice(
    groups: Groups, metric: str, data: st.DataObject
) -> None:
    weights = data.draw(st.lists(st.integers(0, 3), min_size=len(groups), max_size=len(groups)))
    repeated = [group for group, weight in zip(groups, weights, strict=True) for _ in range(weight)]

    def measured(some: Groups, weight: list[int] | None) -> Measurement | None:
        pairs = np.array([row for group in some for row in group], float).reshape(-1, 2)
        each = None if weight is None else np.repeat(np.array(weight, float), [len(group) for group in some])
        rows = Rows(label=pairs[:, 0], offsets=np.cumsum([0, *map(len, some)]), weight=each)
        return measure(metric, rows, pairs[:, 1])

    found, counted = measured(groups, weights), measured(repeated, None)
    assert (found is None) == (counted is None)
    if found is not None and counted is not None:
        assert found.value == pytest.approx(counted.value, abs=1e-12)


@pytest.mark.parametrize("metric", ["auc", "pr_auc"])
def test_influences_of_weighted_rows_predict_a_reweighted_metric(metric: str) -> None:
    generator = np.random.default_rng(5)
    label = generator.random(2000) < 0.1
    score = np.round(generator.random(2000) + 0.5 * label, 2)
    own, weight = generator.lognormal(0, 1, 2000), generator.poisson(1, 2000)
    found = measure(metric, Rows(label=label.astype(float), offsets=None, weight=own), score)
    assert found is not None
    function = reference.roc_auc_score if metric == "auc" else reference.average_precision_score
    assert found.value == pytest.approx(function(label, score, sample_weight=own))
    moved = function(label, score, sample_weight=weight * own)
    guessed = float(found.combine(weight @ found.sums))
    assert guessed == pytest.approx(moved, abs=0.25 * abs(moved - found.value) + 5e-4)


def test_a_group_whose_weights_vary_counts_as_its_labels_weigh() -> None:
    rows = Rows(label=np.array([3.0, 1, 0, 1]), offsets=np.array([0, 3, 4]), weight=np.array([1.0, 5, 9, 7]))
    assert rows.weights_of_groups().tolist() == [2.0, 7.0]
    found = measure("mrr@3", rows, np.array([0.0, 1, 2, 0]))
    assert found is not None
    assert found.value == pytest.approx((2 * 1 / 2 + 7 * 1) / 9)


def test_units_of_unequal_weight_are_worth_fewer_equal_ones() -> None:
    label = np.tile([0.0, 1.0], 50)
    heavy = np.where(np.arange(100) < 2, 1000.0, 1.0)
    for metric in ("logloss", "auc"):
        equal, unequal = (
            measure(metric, Rows(label=label, offsets=None, weight=weight), np.full(100, 0.4))
            for weight in (np.full(100, 7.0), heavy)
        )
        assert equal is not None
        assert unequal is not None
        assert equal.effective == whole(metric, label, np.full(100, 0.4)).effective
        assert unequal.effective <= 2


def test_a_metric_without_a_value_is_none() -> None:
    rows = Rows(label=np.zeros(4), offsets=np.array([0, 2, 4]))
    for metric in ("ndcg@10", "mrr@10", "auc", "pr_auc"):
        assert measure(metric, rows, np.arange(4.0)) is None
    assert measure("ndcg@10", Rows(label=np.ones(2), offsets=None), np.ones(2)) is None
    assert measure("logloss", Rows(label=np.zeros(0), offsets=None), np.zeros(0)) is None


@given(GROUPED, st.integers(0, 3))
def test_selecting_rows_keeps_their_groups_and_drops_empty_ones(groups: Groups, kept: int) -> None:
    offsets = np.cumsum([0, *map(len, groups)])
    value = np.array([row[1] for group in groups for row in group], float)
    mask = value == kept
    chosen = Rows(label=value, offsets=offsets).select(mask)
    sizes = [sum(row[1] == kept for row in group) for group in groups]
    assert np.diff(chosen.offsets).tolist() == [size for size in sizes if size]
    assert len(chosen.label) == mask.sum()


def test_of_a_calibrated_model_all_of_its_calibration_error_may_be_noise_and_of_a_wrong_one_hardly_any() -> None:
    generator = np.random.default_rng(0)
    chance = generator.random(2000)
    rows = Rows(label=(generator.random(2000) < chance).astype(float), offsets=None)
    calibrated, wrong = measure("ece", rows, chance), measure("ece", rows, np.full(2000, 0.9))
    assert calibrated
    assert wrong
    assert calibrated.noise > 0.7 * calibrated.value
    assert wrong.noise < 1e-6 * wrong.value
