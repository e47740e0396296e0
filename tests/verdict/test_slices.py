import numpy as np
import pandas as pd
import pytest

from ratchet.contracts.summaries import SliceJudgement
from ratchet.metrics.metrics import Rows
from ratchet.verdict.rules import SliceComparison, judge_slices
from ratchet.verdict.slices import MAX_VALUES, compare_slices


def compared(values: pd.Series, worse: float = 0.0) -> list[SliceComparison]:
    """Absolute errors of two models; the candidate's are `worse` where the value is b."""
    generator = np.random.default_rng(0)
    label = generator.normal(size=len(values))
    baseline = label + generator.normal(size=len(values))
    candidate = label + (baseline - label) * np.where(values == "b", 1 + worse, 1.0)
    candidate += generator.normal(scale=0.01, size=len(values))
    return compare_slices(
        "kind",
        values,
        metric="mae",
        rows=Rows(label=label, offsets=None),
        candidate=candidate,
        baseline=baseline,
        confidence=0.95,
        seed=0,
    )


def judged(found: list[SliceComparison]) -> dict[str, SliceJudgement]:
    return {one.value: one for one in judge_slices(found, max_loss=0.02, confidence=0.95)}


def test_only_the_slice_that_surely_loses_too_much_fails() -> None:
    found = judged(compared(pd.Series(["a", "b", "c", None] * 200), worse=0.2))
    assert {name: one.passed for name, one in found.items()} == {"a": True, "b": False, "c": True, "(missing)": True}


def test_a_loss_within_what_is_allowed_passes() -> None:
    assert judged(compared(pd.Series(["a", "b"] * 200), worse=0.01))["b"].passed


def test_a_slice_of_a_few_rows_is_named_as_not_measurable_and_does_not_fail() -> None:
    found = judged(compared(pd.Series(["a"] * 200 + ["b"] * 5), worse=9.0))["b"]
    assert found.gain is None
    assert found.passed
    assert found.rows == 5


def test_rare_values_beyond_the_most_frequent_are_judged_together() -> None:
    found = compared(pd.Series(np.arange(4000) % (MAX_VALUES + 30)))
    assert len(found) == MAX_VALUES + 1
    assert found[-1].value == "(other)"
    assert sum(one.rows for one in found) == 4000


def test_many_slices_do_not_fail_by_chance() -> None:
    failing = 0
    for seed in range(20):
        generator = np.random.default_rng(seed)
        label, noise = generator.normal(size=(2, 2000))
        found = compare_slices(
            "kind",
            pd.Series(np.arange(2000) % 40),
            metric="mae",
            rows=Rows(label=label, offsets=None),
            candidate=label + noise,
            baseline=label + generator.permutation(noise),
            confidence=0.95,
            seed=seed,
        )
        failing += any(not one.passed for one in judge_slices(found, max_loss=0.0, confidence=0.95))
    assert failing <= 4


def test_booleans_are_named_as_people_write_them() -> None:
    assert {one.value for one in compared(pd.Series([True, False] * 20))} == {"true", "false"}


def ranked(values: pd.Series, *, metric: str, buried: str | None = None) -> list[SliceComparison]:
    """300 groups of five items each, one of them clicked; the candidate scores as the baseline, but buries one item."""
    generator = np.random.default_rng(1)
    groups, size = 300, 5
    label = np.zeros(groups * size)
    label[np.arange(groups) * size + generator.integers(0, size, groups)] = 1
    baseline = label + generator.normal(scale=0.7, size=len(label))
    candidate = np.where(values == buried, baseline - 100, baseline + generator.normal(scale=0.01, size=len(label)))
    return compare_slices(
        "item",
        values,
        metric=metric,
        rows=Rows(label=label, offsets=np.arange(0, groups * size + 1, size)),
        candidate=candidate,
        baseline=baseline,
        confidence=0.95,
        seed=0,
    )


@pytest.mark.parametrize("metric", ["ndcg@10", "mrr@10"])
def test_an_item_that_a_candidate_buries_in_every_group_fails_its_slice(metric: str) -> None:
    """The rows of one item alone are no ranking: every group would have a single row, and each order the same value."""
    items = pd.Series([f"i{number}" for number in range(5)] * 300)
    found = judged(ranked(items, metric=metric, buried="i3"))["i3"]
    assert found.gain is not None
    assert found.gain.value < -0.02
    assert not found.passed
    assert found.rows == 1500


def test_a_slice_of_whole_groups_is_measured_as_before() -> None:
    countries = pd.Series(np.repeat(["DE", "FR"], 750))
    found = judged(ranked(countries, metric="ndcg@10"))
    assert {name: (one.rows, one.passed) for name, one in found.items()} == {"DE": (750, True), "FR": (750, True)}


def test_another_metric_keeps_to_the_rows_that_have_the_value() -> None:
    items = pd.Series([f"i{number}" for number in range(5)] * 300)
    assert judged(ranked(items, metric="auc"))["i3"].rows == 300
