from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts.quantities import percent
from ratchet.contracts.summaries import Interval, SliceJudgement
from ratchet.verdict.comparison import MIN_UNITS, Comparison
from ratchet.verdict.rules import Case, SliceComparison, judge_slices, rule


def compared(low: float, high: float, *, effective: int = 300, spread: float = 0.01) -> Comparison:
    interval = Interval(value=(low + high) / 2, low=low, high=high)
    return Comparison(gain=interval, spread=spread, effective=effective, confidence=0.95)


def case(low: float = 0.03, high: float = 0.07, *, losing: int = 0, effective: int = 300, margin: float = 0.01) -> Case:
    """A case of two slices that hold, and as many that lose."""
    slices = (*(part(f"lost-{i}", passed=False) for i in range(losing)), part("a", passed=True), part("b", passed=True))
    return Case(
        metric="auc",
        candidate=0.8,
        baseline=0.7,
        comparison=compared(low, high, effective=effective),
        slices=slices,
        margin=margin,
        units="groups",
        against="production (version 3)",
        first=False,
    )


def part(value: str, *, passed: bool) -> SliceJudgement:
    gain = Interval(value=-0.2, low=-0.3, high=-0.1)
    return SliceJudgement(column="country", value=value, rows=10, candidate=0.5, baseline=0.6, gain=gain, passed=passed)


@pytest.mark.parametrize(
    ("judged", "verdict", "reason"),
    [
        (case(0.011, 0.07), "promote", "better"),
        (case(0.01, 0.07), "inconclusive", "too-small-to-tell"),  # just the margin is not above it
        (case(-0.05, 0.01), "inconclusive", "too-small-to-tell"),  # nor below it
        (case(-0.05, 0.009), "reject", "not-better"),
        (case(0.011, 0.07, losing=1), "reject", "slice-loss"),
        (case(-0.05, 0.07, losing=1), "reject", "slice-loss"),
        (case(0.5, 0.7, effective=MIN_UNITS - 1), "inconclusive", "too-small-to-tell"),
        (case(0.5, 0.7, effective=MIN_UNITS - 1, losing=1), "inconclusive", "too-small-to-tell"),
        (case(0.5, 0.7, effective=MIN_UNITS), "promote", "better"),
        (replace(case(0.011, 0.07), first=True), "promote", "first-model"),
        (replace(case(-0.05, 0.009), first=True), "reject", "not-better"),
    ],
)
def test_the_bounds_the_margin_and_the_slices_make_the_verdict(judged: Case, verdict: str, reason: str) -> None:
    ruling = rule(judged)
    assert (ruling.verdict, ruling.reason) == (verdict, reason)


BOUND = st.floats(-1, 1)


@given(BOUND, BOUND, BOUND, st.integers(0, 50), st.integers(0, 3))
def test_nothing_is_promoted_unless_the_lower_bound_is_above_the_margin_and_no_slice_loses(
    one: float, other: float, margin: float, effective: int, losing: int
) -> None:
    low, high = sorted((one, other))
    ruling = rule(case(low, high, losing=losing, effective=effective, margin=margin))
    surely_better = effective >= MIN_UNITS and low > margin and not losing
    assert (ruling.verdict == "promote") == surely_better
    surely_not = effective >= MIN_UNITS and (losing > 0 or high < margin)
    assert (ruling.verdict == "reject") == surely_not


@pytest.mark.parametrize("judged", [case(), case(-0.05, 0.0), case(-0.05, 0.05), case(losing=1), case(effective=3)])
def test_every_explanation_has_the_figures(judged: Case) -> None:
    explanation = rule(judged).explanation
    for figure in ("auc", "0.8", "0.7", "production (version 3)", "95 %", "required: more than 1 %"):
        assert figure in explanation


def test_slices_that_lose_are_named_up_to_three_and_the_others_counted() -> None:
    explanation = rule(case(losing=5)).explanation
    assert all(f"country=lost-{i} (\N{MINUS SIGN}20 %" in explanation for i in range(3))
    assert "lost-3" not in explanation
    assert "and 2 more" in explanation
    assert "more;" not in rule(case(losing=3)).explanation


def test_what_is_too_small_says_which_gain_would_have_been_seen() -> None:
    judged = case(-0.05, 0.07)
    visible = judged.comparison.smallest_visible(judged.margin)
    assert percent(visible, signed=True) in rule(judged).explanation
    assert f"only 3 groups tell the models apart, at least {MIN_UNITS}" in rule(case(effective=3)).explanation


def sliced(value: str, gain: float | None) -> SliceComparison:
    """A slice with a gain whose standard error is 1 %; None: it cannot be measured."""
    found = None if gain is None else compared(gain, gain)
    return SliceComparison(column="country", value=value, rows=10, candidate=0.5, baseline=0.5, comparison=found)


def passed(*slices: SliceComparison, max_loss: float = 0.02) -> dict[str, bool]:
    return {one.value: one.passed for one in judge_slices(list(slices), max_loss=max_loss, confidence=0.95)}


def test_a_slice_fails_if_it_surely_loses_more_than_is_allowed() -> None:
    # 1.65 standard errors are 95 % of a side
    assert passed(sliced("sure", -0.0366)) == {"sure": False}
    assert passed(sliced("unsure", -0.0364)) == {"unsure": True}
    assert passed(sliced("sure", -0.0366), max_loss=0.03) == {"sure": True}


def test_with_more_slices_each_has_to_lose_more_surely() -> None:
    other = sliced("other", 0.0)
    assert passed(sliced("lost", -0.0366), other) == {"lost": True, "other": True}
    assert passed(sliced("lost", -0.0400), other) == {"lost": False, "other": True}


def test_of_several_that_lose_the_next_is_held_to_what_is_left() -> None:
    """Holm: once the first is refuted, the second has the whole level to itself."""
    assert passed(sliced("first", -0.0400), sliced("second", -0.0366)) == {"first": False, "second": False}


def test_a_slice_that_cannot_be_measured_passes_without_a_gain_and_counts_for_nothing() -> None:
    judged = judge_slices([sliced("lost", -0.0366), sliced("none", None)], max_loss=0.02, confidence=0.95)
    assert [(one.value, one.passed, one.gain is None) for one in judged] == [
        ("lost", False, False),
        ("none", True, True),
    ]
