"""From what was measured to a verdict, its reason and a sentence that says why.

promote: the lower bound of the gain is above the margin. reject: the upper bound is below it, or a slice surely loses
too much. inconclusive: anything else; production stays as it is. No obstacle is passed over.
"""

from dataclasses import dataclass

from ratchet.contracts.quantities import percent
from ratchet.contracts.summaries import SliceJudgement, Verdict
from ratchet.verdict.comparison import Comparison, holm


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """How it ended. reason: a short code; explanation: one sentence with the figures."""

    verdict: Verdict
    reason: str
    explanation: str


@dataclass(frozen=True, kw_only=True)
class SliceComparison:
    """One value of a slice column. comparison: None where it cannot be measured."""

    column: str
    value: str
    rows: int
    candidate: float | None
    baseline: float | None
    comparison: Comparison | None


@dataclass(frozen=True, kw_only=True)
class Case:
    """What the verdict is made of. units: what was resampled, in the plural; against: the baseline in words."""

    metric: str
    candidate: float
    baseline: float
    comparison: Comparison
    slices: tuple[SliceJudgement, ...]
    margin: float
    units: str
    against: str
    first: bool


def judge_slices(slices: list[SliceComparison], *, max_loss: float, confidence: float) -> tuple[SliceJudgement, ...]:
    """Which slices lose more than max_loss, wrong about any of them with probability 1 - confidence at most (Holm)."""
    measured = [one for one in slices if one.comparison is not None]
    failed = holm([one.comparison.p_below(-max_loss) for one in measured if one.comparison], 1 - confidence)
    failing = {(one.column, one.value) for one, fails in zip(measured, failed, strict=True) if fails}
    return tuple(
        SliceJudgement(
            column=one.column,
            value=one.value,
            rows=one.rows,
            candidate=one.candidate,
            baseline=one.baseline,
            gain=one.comparison.gain if one.comparison else None,
            passed=(one.column, one.value) not in failing,
        )
        for one in slices
    )


def rule(case: Case) -> Ruling:
    """The verdict where both models could be measured on rows that neither has seen."""
    gain, figures = case.comparison.gain, _figures(case)
    if not case.comparison.measurable:
        why = case.comparison.why_not(case.units)
        reason = "too-small-to-tell" if case.comparison.trouble == "too-few-units" else "too-heavy-a-tail"
        return Ruling(verdict="inconclusive", reason=reason, explanation=f"{figures}; {why}")
    losing = [one for one in case.slices if not one.passed]
    if losing:
        named = ", ".join(_loss(one) for one in losing[:3])
        more = f" and {len(losing) - 3} more" if len(losing) > 3 else ""  # noqa: PLR2004 - as many as fit a sentence
        return Ruling(
            verdict="reject", reason="slice-loss", explanation=f"it loses too much on {named}{more}; {figures}"
        )
    if gain.low > case.margin:
        return Ruling(verdict="promote", reason="first-model" if case.first else "better", explanation=figures)
    if gain.high < case.margin:
        return Ruling(verdict="reject", reason="not-better", explanation=figures)
    visible = percent(case.comparison.smallest_visible(case.margin), signed=True)
    return Ruling(
        verdict="inconclusive",
        reason="too-small-to-tell",
        explanation=f"{figures}; these rows show a gain of {visible} or more in four of five cases",
    )


def _loss(one: SliceJudgement) -> str:
    gain = one.gain
    shown = [percent(bound, signed=True) for bound in (gain.value, gain.low, gain.high)] if gain else []
    bounds = f"{shown[0]}, {shown[1]} to {shown[2]}" if shown else "not measurable"
    return f"{one.column}={one.value} ({bounds})"


def _figures(case: Case) -> str:
    gain, confidence = case.comparison.gain, percent(case.comparison.confidence)
    return (
        f"{case.metric} is {_figure(case.candidate)}, {case.against} has {_figure(case.baseline)}:"
        f" {percent(gain.value, signed=True)} (with {confidence} confidence at least {percent(gain.low, signed=True)};"
        f" required: more than {percent(case.margin)})"
    )


def _figure(value: float) -> str:
    """Four digits of a metric, and no fewer than its whole number."""
    return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"  # noqa: PLR2004 - above, .4g drops digits
