from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts.gate import Gate
from ratchet.contracts.judgements import GuardJudgement, Interval, Proof, SliceJudgement
from ratchet.contracts.quantities import percent
from ratchet.verdict.comparison import MIN_UNITS, Comparison
from ratchet.verdict.rules import Case, rule


def compared(low: float, high: float, *, effective: int = 300, spread: float = 0.01) -> Comparison:
    interval = Interval(value=(low + high) / 2, low=low, high=high)
    return Comparison(gain=interval, spread=spread, effective=effective, confidence=0.95)


def case(low: float = 0.03, high: float = 0.07, *, losing: int = 0, effective: int = 300, margin: float = 0.01) -> Case:
    """A case of two slices that hold, and as many that lose."""
    slices = (*(part(f"lost-{i}", "failed") for i in range(losing)), part("a", "passed"), part("b", "passed"))
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
        gate=Gate(),
    )


def part(value: str, outcome: Proof) -> SliceJudgement:
    gain = Interval(value=-0.2, low=-0.3, high=-0.1)
    return SliceJudgement(
        column="country", value=value, rows=10, candidate=0.5, baseline=0.6, gain=gain, outcome=outcome
    )


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


def guarded(outcome: Proof, kind: Literal["metric", "floor", "latency", "size"] = "metric") -> GuardJudgement:
    found = Interval(value=0.5, low=0.4, high=0.6)
    return GuardJudgement(
        kind=kind, name="brier", candidate=0.5, baseline=0.6, limit=0.01, found=found, outcome=outcome
    )


BLOCK, WARN = Gate(unproven_slices="block"), Gate(unproven_guards="warn")


@pytest.mark.parametrize(
    ("guard", "slices", "gate", "verdict", "reason"),
    [
        (guarded("passed"), "passed", Gate(), "promote", "better"),
        (guarded("failed"), "passed", WARN, "reject", "guard-loss"),
        (guarded("failed", "floor"), "passed", WARN, "reject", "below-floor"),
        (guarded("not-provable"), "passed", Gate(), "inconclusive", "guard-not-provable"),
        (guarded("not-provable"), "passed", WARN, "promote", "better"),
        (guarded("not-provable", "floor"), "passed", WARN, "inconclusive", "floor-not-provable"),
        (guarded("passed"), "not-provable", Gate(), "promote", "better"),
        (guarded("passed"), "not-provable", BLOCK, "inconclusive", "slice-not-provable"),
    ],
)
def test_what_is_not_provable_follows_the_gate_and_is_said(
    guard: GuardJudgement, slices: Proof, gate: Gate, verdict: str, reason: str
) -> None:
    ruling = rule(replace(case(), slices=(part("a", slices),), guards=(guard,), gate=gate))
    assert (ruling.verdict, ruling.reason) == (verdict, reason)
    assert ("not provable: " in ruling.explanation) == ("not-provable" in {guard.outcome, slices})


def test_no_guard_rail_makes_a_worse_model_better() -> None:
    assert rule(replace(case(-0.05, 0.009), guards=(guarded("not-provable"),))).reason == "not-better"


def test_a_stale_champion_is_named_and_its_margin_is_below_zero() -> None:
    stale = replace(case(-0.005, 0.005, margin=-0.01), stale_days=15)
    assert (rule(stale).verdict, rule(stale).reason) == ("promote", "not-worse")
    assert "production's data are 15 days old" in rule(stale).explanation
    assert rule(replace(stale, comparison=compared(0.01, 0.03))).reason == "better"
