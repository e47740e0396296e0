"""How well a column predicts the label is what the field's own functions say, and an id predicts nothing."""

import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from ratchet.contracts.columns import Column
from tasks.validate.prediction import Labels
from tasks.validate.sketch import SIZE, least, shared, sketch

NUMBER = Column(role="numeric", type="float64")
TEXT = Column(role="categorical", type="string")
GENERATOR = np.random.default_rng(5)
ROWS = 4_000


def test_of_two_classes_it_is_the_area_under_the_curve() -> None:
    label = (GENERATOR.random(ROWS) < 0.2).astype(np.int64)
    values = GENERATOR.normal(size=ROWS).round(1) + 0.7 * label
    area = roc_auc_score(label, values)
    found = Labels(pl.Series(label), "binary").predicted_by(pl.Series(values), NUMBER)
    assert found == pytest.approx(abs(2 * area - 1), abs=1e-6)
    assert Labels(pl.Series(1 - label), "binary").predicted_by(pl.Series(values), NUMBER) == pytest.approx(found)


def test_of_a_regression_it_is_spearmans_correlation() -> None:
    label = GENERATOR.lognormal(size=ROWS).round(1)
    values = GENERATOR.normal(size=ROWS).round(1) - label
    found = Labels(pl.Series(label), "regression").predicted_by(pl.Series(values), NUMBER)
    assert found == pytest.approx(abs(spearmanr(label, values).statistic), abs=1e-6)


def test_a_category_predicts_by_the_other_half_of_the_rows() -> None:
    label = GENERATOR.integers(0, 3, ROWS)
    labels = Labels(pl.Series(label), "multiclass")
    assert labels.predicted_by(pl.Series([f"class {one}" for one in label]), TEXT) == 1
    assert (labels.predicted_by(pl.Series([f"id {place}" for place in range(ROWS)]), TEXT) or 0) < 0.1


@pytest.mark.parametrize("rows", [ROWS, 60_000])
def test_an_order_of_rows_that_repeats_hides_no_leak(rows: int) -> None:
    """Each third row is of a bot that never clicks, and each second one has a text of its own."""
    place = np.arange(rows)
    label = np.where(place % 3 == 0, 0, GENERATOR.integers(0, 2, rows))
    found = Labels(pl.Series(label), "binary").predicted_by(pl.Series(label * 1.0), NUMBER)
    assert found == 1
    texts = pl.Series([f"{one}, {two}" for one, two in zip(label, place % 2, strict=True)])
    assert Labels(pl.Series(label), "binary").predicted_by(texts, TEXT) == 1


def test_rows_without_a_label_or_a_value_are_no_error() -> None:
    label = pl.Series([None, 0, 1, 1] * 20, dtype=pl.Int64)
    values = pl.Series([5.0, None, 1.0, float("nan")] * 20)
    assert Labels(label, "binary").predicted_by(values, NUMBER) == 1  # a missing value is the least
    assert Labels(label.clear(), "binary").predicted_by(values.clear(), NUMBER) is None
    assert Labels(pl.Series([0, 1] * 7), "binary").predicted_by(pl.Series([1.0] * 14), NUMBER) is None
    assert Labels(pl.Series([2.5] * 50), "regression").predicted_by(pl.Series([1.0] * 50), NUMBER) is None


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_sketches_estimate_the_share_that_two_sets_have_in_common(share: float) -> None:
    ours = GENERATOR.integers(0, 2**63, 50_000, dtype=np.uint64)
    theirs = GENERATOR.integers(0, 2**63, 80_000, dtype=np.uint64)
    theirs[: int(share * len(ours))] = ours[: int(share * len(ours))]
    one, two = sketch(ours), sketch(theirs)
    assert shared(one, two) == pytest.approx(share, abs=0.12)
    assert least([one, two]) == sketch(np.union1d(ours, theirs))
    assert len(one) == SIZE
    assert shared((), two) == 0
