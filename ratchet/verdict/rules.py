"""From what was measured to a verdict, its reason and a sentence that says why.

promote: the lower bound of the gain is above the margin, and each guard rail is kept as far as the gate asks for it.
reject: the upper bound is below the margin, or a guard rail is surely broken. inconclusive: anything else; production
stays as it is. No obstacle is passed over.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from ratchet.contracts.gate import Gate
from ratchet.contracts.judgements import GuardJudgement, SliceJudgement, Verdict
from ratchet.contracts.quantities import percent
from ratchet.verdict.comparison import Comparison
from ratchet.verdict.sentences import attempt, bounds, confidence, figure, guard, listed, slice_loss


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """How it ended. reason: a short code; explanation: one sentence with the figures."""

    verdict: Verdict
    reason: str
    explanation: str


@dataclass(frozen=True, kw_only=True)
class Case:
    """What the verdict is made of.

    units: what was resampled, in the plural; against: the baseline in words; margin: what the lower bound must exceed,
    below 0 against a champion whose data are `stale_days` old; number: which attempt at the held-out days this is.
    """

    metric: str
    candidate: float
    baseline: float
    comparison: Comparison
    slices: tuple[SliceJudgement, ...]
    margin: float
    units: str
    against: str
    first: bool
    gate: Gate
    guards: tuple[GuardJudgement, ...] = ()
    stale_days: int | None = None
    number: int = 1
    days: tuple[date, ...] = ()


def rule(case: Case) -> Ruling:
    """The verdict where both models could be measured on rows that neither has seen."""
    gain, figures = case.comparison.gain, _figures(case)
    if not case.comparison.measurable:
        why = case.comparison.why_not(case.units)
        reason: str = case.comparison.trouble or ""
        reason = "too-small-to-tell" if reason == "too-few-units" else reason
        return Ruling(verdict="inconclusive", reason=reason, explanation=f"{figures}; {why}")
    broken = next(_broken(case), None)
    if broken is not None:
        reason, said = broken
        return Ruling(verdict="reject", reason=reason, explanation=f"{said}; {figures}")
    if gain.low > case.margin:
        return _better(case)
    if gain.high < case.margin:
        return Ruling(verdict="reject", reason="not-better", explanation=figures)
    visible = percent(case.comparison.smallest_visible(case.margin), signed=True)
    return Ruling(
        verdict="inconclusive",
        reason="too-small-to-tell",
        explanation=f"{figures}; these rows show a gain of {visible} or more in four of five cases",
    )


def _broken(case: Case) -> Iterator[tuple[str, str]]:
    """The reasons for which guard rails reject, each with its words."""
    if losing := [slice_loss(one) for one in case.slices if one.outcome == "failed"]:
        yield "slice-loss", f"it loses too much on {listed(losing)}"
    for reason, kinds, said in (
        ("below-floor", _FLOORS, "it is surely not good enough"),
        ("guard-loss", _GUARDS, "it loses too much"),
    ):
        if failed := [guard(one) for one in case.guards if one.kind in kinds and one.outcome == "failed"]:
            yield reason, f"{said}: {listed(failed)}"


def _better(case: Case) -> Ruling:
    """The verdict where the gain is large enough: it depends on what could not be proven of the guard rails."""
    figures = _figures(case)
    open_slices = [slice_loss(one) for one in case.slices if one.outcome == "not-provable"]
    open_guards = [guard(one) for one in case.guards if one.kind in _GUARDS and one.outcome == "not-provable"]
    open_floors = [guard(one) for one in case.guards if one.kind in _FLOORS and one.outcome == "not-provable"]
    for reason, found, blocks in (
        ("floor-not-provable", open_floors, True),
        ("guard-not-provable", open_guards, case.gate.unproven_guards == "block"),
        ("slice-not-provable", open_slices, case.gate.unproven_slices == "block"),
    ):
        if found and blocks:
            return Ruling(
                verdict="inconclusive", reason=reason, explanation=f"{figures}; not provable: {listed(found)}"
            )
    reason = "first-model" if case.first else "better"
    if case.stale_days is not None and case.comparison.gain.low <= case.gate.min_gain:
        reason = "not-worse"
    unproven = [*open_guards, *open_slices]
    warned = f"; not provable: {listed(unproven)}" if unproven else ""
    return Ruling(verdict="promote", reason=reason, explanation=f"{figures}{warned}")


_FLOORS = frozenset({"floor"})
_GUARDS = frozenset({"metric", "latency", "size"})


def _figures(case: Case) -> str:
    stale = (
        ""
        if case.stale_days is None
        else f"production's data are {case.stale_days} days old, so it need not be beaten: "
    )
    return (
        f"{attempt(case.number, case.days)}{stale}"
        f"{case.metric} is {figure(case.candidate)}, {case.against} has {figure(case.baseline)}:"
        f" {bounds(case.comparison.gain, confidence(case.comparison.confidence))};"
        f" required: more than {percent(case.margin)})"
    )
