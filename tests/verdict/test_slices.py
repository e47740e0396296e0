import numpy as np
import pandas as pd
import pytest

from ratchet.contracts.expressions import parse
from ratchet.contracts.judgements import SliceJudgement
from ratchet.contracts.slices import Slice
from ratchet.metrics.metrics import Rows
from ratchet.verdict.guards import judge_slices
from ratchet.verdict.masks import MAX_VALUES, choose, slice_rows
from ratchet.verdict.slices import SliceComparison, compare_slices


def compared(values: pd.Series, worse: float = 0.0) -> list[SliceComparison]:
    """Absolute errors of two models; the candidate's are `worse` where the value is b."""
    generator = np.random.default_rng(0)
    label = generator.normal(size=len(values))
    baseline = label + generator.normal(size=len(values))
    candidate = label + (baseline - label) * np.where(values == "b", 1 + worse, 1.0)
    candidate += generator.normal(scale=0.01, size=len(values))
    return compare_slices(
        Slice(column="kind"),
        pd.DataFrame({"kind": values}),
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
    outcomes = {name: one.outcome for name, one in found.items()}
    assert outcomes == {"a": "passed", "b": "failed", "c": "passed", "(missing)": "passed"}


def test_a_loss_within_what_is_allowed_passes() -> None:
    assert judged(compared(pd.Series(["a", "b"] * 200), worse=0.01))["b"].outcome == "passed"


def test_a_slice_of_a_few_rows_is_not_provable() -> None:
    found = judged(compared(pd.Series(["a"] * 200 + ["b"] * 5), worse=9.0))["b"]
    assert found.gain is None
    assert found.outcome == "not-provable"
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
            Slice(column="kind"),
            pd.DataFrame({"kind": np.arange(2000) % 40}),
            metric="mae",
            rows=Rows(label=label, offsets=None),
            candidate=label + noise,
            baseline=label + generator.permutation(noise),
            confidence=0.95,
            seed=seed,
        )
        failing += any(one.outcome == "failed" for one in judge_slices(found, max_loss=0.0, confidence=0.95))
    assert failing <= 4


def test_booleans_are_named_as_people_write_them() -> None:
    assert {one.value for one in compared(pd.Series([True, False] * 20))} == {"true", "false"}


def ranked(values: pd.Series, *, metric: str, buried: str | None = None, better: float = 0.0) -> list[SliceComparison]:
    """300 groups of five items each, one of them clicked; the candidate is so much better, but buries one item."""
    generator = np.random.default_rng(1)
    groups, size = 300, 5
    label = np.zeros(groups * size)
    label[np.arange(groups) * size + generator.integers(0, size, groups)] = 1
    baseline = label + generator.normal(scale=0.7, size=len(label))
    candidate = np.where(values == buried, baseline - 100, baseline + better * label)
    return compare_slices(
        Slice(column="item"),
        pd.DataFrame({"item": values}),
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
    assert found.outcome == "failed"
    assert found.rows == 1500


def test_a_slice_of_whole_groups_has_all_their_rows() -> None:
    countries = pd.Series(np.repeat(["DE", "FR"], 750))
    found = judged(ranked(countries, metric="ndcg@10", better=0.5))
    assert all(one.gain is not None and one.gain.low > 0 for one in found.values())
    assert {name: one.rows for name, one in found.items()} == {"DE": 750, "FR": 750}
    assert "failed" not in {one.outcome for one in found.values()}


def test_a_slice_on_which_no_group_differs_has_lost_nothing() -> None:
    values = pd.Series(np.repeat(["same", "other"], 400))
    label = np.random.default_rng(0).normal(size=800)
    moved = label + np.where(values == "same", 0.0, 0.5)
    found = compare_slices(
        Slice(column="kind"),
        pd.DataFrame({"kind": values}),
        metric="mae",
        rows=Rows(label=label, offsets=None),
        candidate=moved + 1,
        baseline=label + 1,
        confidence=0.95,
        seed=0,
    )
    assert {name: one.outcome for name, one in judged(found).items()} == {"same": "passed", "other": "failed"}


def test_another_metric_keeps_to_the_rows_that_have_the_value() -> None:
    items = pd.Series([f"i{number}" for number in range(5)] * 300)
    assert judged(ranked(items, metric="auc"))["i3"].rows == 300


FRAME = pd.DataFrame({
    "country": ["DE", "FR", None, "DE"],
    "hour": pd.array([1, 7, None, 20], dtype="Int64"),
    "price": [1.0, np.nan, 3.0, 100.0],
    "new": pd.array([True, False, None, True], dtype="boolean"),
})  # fmt: skip


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('country == "DE" and hour < 6', [0]),
        ("price > 2", [2, 3]),
        ("not price > 2", [0, 1]),  # a comparison with a missing value is false, and so its opposite is true
        ("hour != 7", [0, 3]),
        ("hour in [1, 20] or price is missing", [0, 1, 3]),
        ("country not in ['DE']", [1, 2]),
        ("country is not missing and (new or hour >= 7)", [0, 1, 3]),
        ("new == false", [1]),
    ],
)
def test_an_expression_chooses_rows(text: str, rows: list[int]) -> None:
    assert np.flatnonzero(choose(parse(text), FRAME)).tolist() == rows


def test_bins_split_the_rows_that_have_a_number_and_the_others_are_named() -> None:
    frame = pd.DataFrame({"price": [*range(100), None]})
    found = {one.value: int(one.mask.sum()) for one in slice_rows(Slice(column="price", bins=4), frame)}
    assert found == {"below 24.75": 25, "24.75 to 49.5": 25, "49.5 to 74.25": 25, "74.25 up": 25, "(missing)": 1}
    edges = {one.value: int(one.mask.sum()) for one in slice_rows(Slice(column="price", bins=(10, 90)), frame)}
    assert edges == {"below 10": 10, "10 to 90": 80, "90 up": 10, "(missing)": 1}


def test_bins_of_one_value_are_one_bin() -> None:
    frame = pd.DataFrame({"price": [3.0] * 10})
    assert [(one.value, int(one.mask.sum())) for one in slice_rows(Slice(column="price", bins=4), frame)] == [
        ("any", 10)
    ]


def test_bins_of_no_number_are_missing() -> None:
    frame = pd.DataFrame({"price": [np.nan] * 3})
    assert [one.value for one in slice_rows(Slice(column="price", bins=4), frame)] == ["(missing)"]
