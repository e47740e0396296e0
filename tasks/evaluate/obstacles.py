"""What makes a fair comparison impossible, and the ruling that follows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ratchet.contracts.authority import Finding
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.metrics.metrics import Floats
from ratchet.verdict.rules import Case, Ruling, rule
from tasks.evaluate.baseline import Baseline, Trouble
from tasks.evaluate.night import Night

STUCK = "champion-unmeasurable"
"""The reason of a verdict on a champion that no later night will measure by itself."""
_WHY = '--because "..."'
_WHAT: Mapping[Trouble, str] = {
    "baseline-missing": "is missing",
    "baseline-unreadable": "cannot be measured",
    "other-target": "predicts something else",
}


def no_authority(finding: Finding | None) -> Ruling | None:
    """The ruling where ledger and registry do not say what is in production, else None."""
    if finding is None:
        return None
    explanation = f"{finding.explanation}; nothing is promoted until that is settled: {finding.remedy}"
    return Ruling(verdict="inconclusive", reason=finding.name, explanation=explanation)


def candidate_obstacle(candidate: Floats) -> Ruling | None:
    """The ruling on a candidate that gives some rows a score that is no number, else None."""
    bad = int((~np.isfinite(candidate)).reshape(len(candidate), -1).any(axis=1).sum())
    if not bad:
        return None
    said = f"the candidate gives {bad:,} rows a score that is no number; to do: see the losses of train"
    return Ruling(verdict="reject", reason="candidate-unreadable", explanation=said)


def parent_obstacle(night: Night) -> Ruling | None:
    """The ruling on a candidate that began with a model which knows held-out days, else None."""
    if not night.seen:
        return None
    days = ", ".join(map(str, night.seen[:5]))
    return Ruling(
        verdict="inconclusive",
        reason="candidate-saw-holdout",
        explanation=f"the candidate began with a model that was trained on held-out days ({days}), so the comparison is"
        " not fair; to do: start a new run of this date",
    )


def baseline_obstacle(
    case: Case, baseline: Baseline | None, candidate: Floats, night: Night, spec: PipelineSpec
) -> Ruling | None:
    """The ruling where candidate and champion cannot be compared, else None."""
    if baseline is None:
        return None
    production, scores = baseline.champion.title_in(spec.name), baseline.scores
    if baseline.trouble:
        what = _WHAT[baseline.trouble]
        cause = f"the model of {production} {what}: {baseline.cause}"
        return _unmeasured(baseline.trouble, cause, case, night, spec)
    if scores is not None and scores.shape != candidate.shape:
        cause = (
            f"{production} gives scores of the shape {scores.shape[1:]}, the candidate of the shape"
            f" {candidate.shape[1:]}"
        )
        return _unmeasured("baseline-unreadable", cause, case, night, spec)
    if scores is not None and np.array_equal(scores, candidate):
        same = baseline.champion.digest == night.digest
        how = "is the same model" if same else "gives each row the same score as the candidate"
        return Ruling(verdict="reject", reason="identical", explanation=f"{production} {how}; there is nothing to gain")
    if baseline.seen:
        days = ", ".join(map(str, baseline.seen[:5]))
        return Ruling(
            verdict="inconclusive",
            reason="baseline-saw-holdout",
            explanation=f"{production} was trained on held-out days ({days}), so the comparison is not fair;"
            f" {rule(case).explanation}",
        )
    return None


def value_obstacle(metric: str, ours: float | None, without: Sequence[str], figures: str) -> Ruling | None:
    """The ruling where the candidate or a rival has no value of the metric, else None.

    without: the rivals that have none, in words. figures: the comparison with those that have one, or empty. A rival
    that nobody could compare with is not beaten.
    """
    if ours is None:
        said = (
            f"{metric} has no value of the candidate on these rows, so that nobody knows whether it is better; to do: "
            "look at the held-out labels, and at the metric's own code if it has any; or choose another evaluate.metric"
        )
        return Ruling(verdict="inconclusive", reason="candidate-without-value", explanation=said)
    if not without:
        return None
    names = " and ".join(without)
    said = (
        f"{metric} has a value of the candidate ({ours:.6g}) and none of {names} on the same rows, so that nobody "
        "knows whether it is better; to do: let it return a finite number for such scores too, or choose another "
        "evaluate.metric"
    )
    explanation = f"{said}; {figures}" if figures else said
    return Ruling(verdict="inconclusive", reason="baseline-without-value", explanation=explanation)


def is_sound(case: Case) -> bool:
    """Whether a candidate beats a constant by the margin and keeps its guard rails, as a first model has to."""
    return rule(replace(case, stale_days=None, margin=case.gate.min_gain)).verdict == "promote"


def rescue(model: str) -> str:
    """The commands that end it when a champion can never be measured again."""
    return f"ratchet rollback {model} {_WHY}, or ratchet promote {model}@VERSION {_WHY}"


def _unmeasured(reason: str, cause: str, case: Case, night: Night, spec: PipelineSpec) -> Ruling:
    """The ruling on a champion that cannot be measured: after some nights, one that asks for a person."""
    nights = night.unmeasured + 1
    kept = f"no model replaces one that it cannot be compared with; {rule(case).explanation}"
    if nights < spec.gate.unmeasurable_after:
        return Ruling(verdict="inconclusive", reason=reason, explanation=f"{cause}; {kept}")
    since = f"for {nights} nights now production could not be measured" if nights > 1 else "production is stuck"
    to_do = "promote the version that register makes of the candidate, or go back: " if is_sound(case) else ""
    return Ruling(
        verdict="inconclusive",
        reason=STUCK,
        explanation=f"{since}: {cause}; to do: {to_do}{rescue(spec.model_name)}; {kept}",
    )
