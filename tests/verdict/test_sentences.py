from datetime import date

import pytest

from ratchet.contracts.gate import Gate
from ratchet.contracts.judgements import Interval, SliceJudgement
from ratchet.verdict.comparison import Comparison
from ratchet.verdict.rules import Case, rule
from ratchet.verdict.sentences import attempt, confidence

MINUS = "\N{MINUS SIGN}"


def gain(low: float, value: float, high: float) -> Interval:
    return Interval(value=value, low=low, high=high)


def case(
    found: Interval,
    *,
    effective: int = 500,
    margin: float = 0.005,
    first: bool = False,
    slices: tuple[SliceJudgement, ...] = (),
    candidate: float = 0.6355,
    baseline: float = 0.4335,
) -> Case:
    return Case(
        metric="ndcg@10",
        candidate=candidate,
        baseline=baseline,
        comparison=Comparison(gain=found, spread=0.011, effective=effective, confidence=0.95),
        slices=slices,
        margin=margin,
        units="groups",
        against="a constant scorer" if first else "production (version 2)",
        first=first,
        gate=Gate(min_gain=0.005),
    )


def lost(country: str) -> SliceJudgement:
    return SliceJudgement(
        column="country",
        value=country,
        rows=100,
        candidate=0.5,
        baseline=0.6,
        gain=gain(-0.2, -0.125, -0.05),
        outcome="failed",
    )


def test_a_first_model_is_explained_by_its_figures_against_a_constant_scorer() -> None:
    ruling = rule(case(gain(0.4398512, 0.4657134, 0.49), margin=0.0, first=True))
    assert (ruling.verdict, ruling.reason) == ("promote", "first-model")
    assert ruling.explanation == (
        "ndcg@10 is 0.6355, a constant scorer has 0.4335: +46.6 % (with 95 % confidence at least +44.0 %;"
        " required: more than 0 %)"
    )


@pytest.mark.parametrize(
    ("found", "verdict", "reason"),
    [
        (gain(0.01, 0.02, 0.03), "promote", "better"),
        (gain(-0.03, -0.02, 0.004), "reject", "not-better"),
        (gain(-0.01, 0.01, 0.03), "inconclusive", "too-small-to-tell"),
        (gain(0.005, 0.02, 0.03), "inconclusive", "too-small-to-tell"),
    ],
)
def test_the_verdict_follows_from_the_bounds_and_the_margin(found: Interval, verdict: str, reason: str) -> None:
    ruling = rule(case(found))
    assert (ruling.verdict, ruling.reason) == (verdict, reason)
    assert "ndcg@10 is 0.6355, production (version 2) has 0.4335: " in ruling.explanation
    assert "required: more than 0.5 %" in ruling.explanation


def test_an_inconclusive_one_says_which_gain_these_rows_could_have_shown() -> None:
    found = case(gain(-0.0029083, 0.0144, 0.0328))
    ruling = rule(found)
    assert f"at least {MINUS}0.29 %" in ruling.explanation
    assert ruling.explanation.endswith("; these rows show a gain of +3.24 % or more in four of five cases")


def test_too_few_units_conclude_nothing_and_say_how_many_are_required() -> None:
    ruling = rule(case(gain(0.5, 0.6, 0.7), effective=9))
    assert (ruling.verdict, ruling.reason) == ("inconclusive", "too-small-to-tell")
    assert ruling.explanation.endswith("; only 9 groups tell the models apart, at least 30 are required")


def test_a_slice_that_loses_too_much_rejects_a_better_model_and_is_named_first() -> None:
    ruling = rule(case(gain(0.01, 0.02, 0.03), slices=tuple(map(lost, ("US", "FR", "DE", "IT", "ES")))))
    assert (ruling.verdict, ruling.reason) == ("reject", "slice-loss")
    one = f"({MINUS}12.5 %, {MINUS}20 % to {MINUS}5 %)"
    assert ruling.explanation.startswith(
        f"it loses too much on country=US {one}, country=FR {one}, country=DE {one} and 2 more; ndcg@10 is "
    )


@pytest.mark.parametrize(
    ("value", "shown"), [(0.5, "0.5"), (0.63546, "0.6355"), (1234.56, "1,235"), (1_234_567.0, "1,234,567")]
)
def test_a_metric_is_written_with_four_digits_or_its_whole_number(value: float, shown: str) -> None:
    explanation = rule(case(gain(0.01, 0.02, 0.03), candidate=value)).explanation
    assert explanation.startswith(f"ndcg@10 is {shown}, production")


@pytest.mark.parametrize(
    ("level", "shown"), [(0.95, "95 %"), (0.955, "95.5 %"), (0.9969604, "99.7 %"), (0.99924, "99.924 %"), (0.5, "50 %")]
)
def test_a_confidence_has_two_digits_of_its_error(level: float, shown: str) -> None:
    assert confidence(level) == shown


def test_a_later_attempt_names_its_number_and_its_days() -> None:
    days = [date(2026, 11, 19), date(2026, 11, 20)]
    assert attempt(1, days) == ""
    assert attempt(2, days[1:]) == "second attempt at 2026-11-20: "
    assert attempt(11, days) == "11th attempt at 2026-11-19 to 2026-11-20: "
