import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference

from ratchet.metrics.metrics import Floats, Measurement, Rows, measure
from ratchet.metrics.own import BLOCKS, of_groups, of_rows
from ratchet.verdict.comparison import Comparison, compare


def auc(rows: Rows, score: Floats) -> float:
    return float(reference.roc_auc_score(rows.label, score, sample_weight=rows.weights))


def mean(rows: Rows, score: Floats) -> float:
    return float(np.average(score, weights=rows.weights))


def ndcg(rows: Rows, score: Floats) -> float:
    return float(reference.ndcg_score([rows.label], [score], k=3))


def pooled(rows: Rows, score: Floats) -> Measurement:
    positive = rows.label > 0
    information = np.stack([rows.weights_of_units(mask) for mask in (positive, ~positive)], axis=1)
    found = of_rows(auc, rows, score, lower_is_better=False, information=information)
    assert found is not None
    return found


def against(one: Measurement | None, other: Measurement | None, *, lower: bool = False) -> Comparison:
    assert one is not None
    assert other is not None
    return compare(one, other, lower_is_better=lower, confidence=0.95, seed=0)


@pytest.mark.parametrize("clusters", [None, 150])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_copy_of_auc_has_the_value_and_nearly_the_interval_of_ours(clusters: int | None, weighted: bool) -> None:
    draw = np.random.default_rng(0)
    label = (draw.random(1500) < 0.2).astype(float)
    weak, strong = label + draw.normal(size=1500), 1.5 * label + draw.normal(size=1500)
    rows = Rows(
        label=label,
        offsets=None,
        weight=draw.integers(1, 4, 1500).astype(float) if weighted else None,
        cluster=None if clusters is None else draw.integers(0, clusters, 1500),
    )
    found = against(pooled(rows, strong), pooled(rows, weak))
    ours = against(measure("auc", rows, strong), measure("auc", rows, weak))
    assert found.gain.value == pytest.approx(ours.gain.value, abs=1e-9)
    assert found.gain.low == pytest.approx(ours.gain.low, abs=0.25 * (ours.gain.value - ours.gain.low))
    assert found.gain.high == pytest.approx(ours.gain.high, abs=0.25 * (ours.gain.high - ours.gain.value))
    assert found.effective == pytest.approx(ours.effective, rel=0.02)


def test_a_copy_of_ndcg_has_the_value_and_the_interval_of_ours_by_the_weight_of_groups() -> None:
    draw = np.random.default_rng(1)
    label = draw.integers(0, 3, 1200).astype(float)
    weight = np.repeat(draw.integers(1, 5, 300), 4).astype(float)
    rows = Rows(label=label, offsets=np.arange(0, 1201, 4), weight=weight)
    scores = [label * better + draw.normal(size=1200) for better in (1.0, 0.4)]
    found = against(*(of_groups(ndcg, rows, score, lower_is_better=False) for score in scores))
    ours = against(*(measure("ndcg@3", rows, score) for score in scores))
    assert found.gain.value == pytest.approx(ours.gain.value, abs=1e-9)
    assert found.gain.low == pytest.approx(ours.gain.low, abs=1e-6)
    assert found.effective == ours.effective


@pytest.mark.parametrize(("other", "least", "most"), [(12, 2, 12), (5000, 100, 5000)])
def test_rows_on_which_the_models_agree_tell_nothing_also_where_only_blocks_of_them_are_known(
    other: int, least: int, most: int
) -> None:
    def right(rows: Rows, score: Floats) -> float:
        return float(((score > 0.5) == (rows.label > 0)).mean())

    draw = np.random.default_rng(0)
    label = draw.integers(0, 2, 5000).astype(float)
    worse = np.where(draw.random(5000) < 0.2, 1 - label, label)
    worse[:other:2], better = 1 - label[:other:2], worse.copy()
    better[:other] = np.where(draw.random(other) < 0.9, label[:other], 1 - label[:other])
    better[:12], worse[:12] = label[:12], 1 - label[:12]
    given = {"lower_is_better": False, "information": np.ones((5000, 1))}
    rows = Rows(label=label, offsets=None)
    measured = [of_rows(right, rows, score, **given) for score in (better, worse)]  # type: ignore[arg-type] # one dict
    found = against(*measured)
    assert least <= found.effective <= most
    assert found.gain.value > 0
    assert found.measurable == (most > 30)


@given(st.integers(0, 2**32 - 1), st.integers(1, 400), st.booleans())
def test_the_parts_of_a_mean_are_its_rows(seed: int, count: int, clustered: bool) -> None:
    draw = np.random.default_rng(seed)
    weight, score = draw.integers(1, 5, count).astype(float), draw.normal(size=count)
    cluster = draw.integers(0, 20, count) if clustered else None
    rows = Rows(label=np.zeros(count), offsets=None, weight=weight, cluster=cluster)
    found = of_rows(mean, rows, score, lower_is_better=False, information=np.ones((count, 1)))
    assert found is not None
    block = rows.unit_of_rows % BLOCKS
    expected = np.bincount(block, weight * score) / weight.sum()
    np.testing.assert_allclose(found.sums[:, 0], expected if np.ptp(block) else found.value, atol=1e-12)
    assert found.combine(found.sums.sum(axis=0)) == pytest.approx(found.value, abs=1e-12)


@pytest.mark.parametrize("rows", [5, 5000])
def test_a_function_is_called_once_for_all_rows_and_once_for_each_block(rows: int) -> None:
    calls: list[int] = []

    def counted(some: Rows, score: Floats) -> float:
        calls.append(len(score))
        return mean(some, score)

    of_rows(
        counted,
        Rows(label=np.zeros(rows), offsets=None),
        np.arange(float(rows)),
        lower_is_better=False,
        information=np.ones((rows, 1)),
    )
    assert len(calls) == 1 + min(rows, BLOCKS)
    assert calls[0] == rows
    assert sum(rows - count for count in calls) == rows


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_no_measurement_of_all_rows_and_of_a_block_alike(bad: float) -> None:
    rows = Rows(label=np.zeros(50), offsets=None)

    def sometimes(some: Rows, _: Floats) -> float:
        return bad if len(some.label) == 49 else 1.0

    for function in (sometimes, lambda *_: bad):
        given = {"lower_is_better": False, "information": np.ones((50, 1))}
        assert of_rows(function, rows, np.zeros(50), **given) is None
    grouped = Rows(label=np.ones(50), offsets=np.arange(0, 51, 5))
    assert of_groups(lambda *_: bad, grouped, np.zeros(50), lower_is_better=False) is None


def test_groups_without_a_positive_or_a_value_say_nothing() -> None:
    label = np.array([1.0, 0, 0, 0, 1, 1])
    rows = Rows(label=label, offsets=np.array([0, 2, 4, 6]))
    seen: list[float] = []

    def first(some: Rows, score: Floats) -> float:
        seen.append(score[0])
        return float(score[0]) if score[0] < 4 else np.nan

    found = of_groups(first, rows, np.arange(6.0), lower_is_better=False)
    assert seen == [0.0, 4.0]
    assert found is not None
    assert (found.value, found.effective) == (0.0, 1)


@pytest.mark.parametrize("silent", [slice(0, 40), slice(0, 60)])
def test_a_model_without_a_value_on_the_groups_on_which_it_is_bad_is_not_compared_on_the_others(silent: slice) -> None:
    """In the first case both have a value on as many groups, and not on the same ones."""
    draw = np.random.default_rng(3)
    rows = Rows(label=np.tile([1.0, 0.0], 200), offsets=np.arange(0, 401, 2))
    ours, theirs = draw.random((2, 200))
    ours[silent], theirs[100:140] = np.nan, np.nan

    def first(_: Rows, score: Floats) -> float:
        return float(score[0])

    found = against(*(of_groups(first, rows, one.repeat(2), lower_is_better=False) for one in (ours, theirs)))
    assert (found.trouble, found.measurable) == ("not-the-same-units", False)
    theirs[100:140], theirs[silent] = 0.5, np.nan
    assert against(*(of_groups(first, rows, one.repeat(2), lower_is_better=False) for one in (ours, theirs))).measurable


def test_shares_are_resampled_by_percentiles_and_losses_and_what_has_no_limit_by_bootstrap_t() -> None:
    draw = np.random.default_rng(2)
    rows = Rows(label=np.zeros(4000), offsets=None)
    given = {"rows": rows, "information": np.ones((4000, 1))}
    share, heavy = draw.random(4000), np.minimum(np.exp(3 * draw.normal(size=4000)) / 1e4, 0.9)
    tailed = {
        (name, lower): found.tailed
        for name, score in {"share": share, "heavy": heavy, "large": 5 * share}.items()
        for lower in (False, True)
        if (found := of_rows(mean, score=score, lower_is_better=lower, **given))
    }
    assert [key for key, found in tailed.items() if not found] == [("share", False)]


def test_a_difference_that_a_few_units_make_is_not_concluded_from() -> None:
    draw = np.random.default_rng(3)
    label, score = (draw.random(2000) < 0.4).astype(float), draw.random(2000)
    rows = Rows(label=label, offsets=None)
    other = score.copy()
    other[:8] += label[:8]
    assert against(pooled(rows, other), pooled(rows, score)).trouble == "too-heavy-a-tail"
