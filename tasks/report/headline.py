"""The headline of a run's page: the result, in a few words and one sentence."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from ratchet.contracts.registration import Registration
from ratchet.contracts.request import Outcome
from ratchet.contracts.stages import Stage
from ratchet.contracts.summaries import Judgement, TrainedModel, trained

_CHECK = re.compile(r"- \S+ (.+?: .+?): ")
"""The column and the rule of a failed check: `- 2026-03-20 column price: min: ...` -> `column price: min`."""
Mood = Literal["good", "bad", "warn"]

_STUCK = "Stuck: the model in production cannot be measured, and a person has to decide"
_REASONS = {
    "not-better": "Rejected: not better than production",
    "slice-loss": "Rejected: the loss on a slice is too large",
    "guard-loss": "Rejected: the loss of another metric, or the cost, is too large",
    "below-floor": "Rejected: not good enough for any model",
    "candidate-unreadable": "Rejected: the candidate gives scores that are no numbers",
    "floor-not-provable": "Undecided: too little data to prove a floor",
    "guard-not-provable": "Undecided: too little data to prove a guard rail",
    "slice-not-provable": "Undecided: too little data to prove a slice",
    "identical": "Rejected: production already has this model",
    "too-small-to-tell": "Undecided: too little data to tell",
    "baseline-saw-holdout": "Undecided: production was trained on the held-out rows",
    "candidate-saw-holdout": "Undecided: the candidate began with a model that was trained on the held-out rows",
    "ledger-lost": "Undecided: the ledger of production is lost",
    "ledger-behind": "Undecided: records of production are lost",
    "ledger-damaged": "Undecided: the ledger of production is damaged",
    "registry-behind": "Undecided: the registry does not have the model in production",
    "foreign-alias": "Undecided: the alias of production names a model of others",
    "baseline-without-value": "Undecided: the metric has no value of a baseline",
    "baseline-missing": "Undecided: the model in production is missing",
    "baseline-unreadable": "Undecided: the model in production cannot be measured",
    "champion-unmeasurable": _STUCK,
}


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The headline. mood: its colour; badge: the verdict, or why there is none; detail: a sentence below both."""

    title: str
    mood: Mood
    detail: str
    badge: str = "no verdict"


def headline(
    outcomes: Mapping[Stage, Outcome], judged: Judgement | None, registered: Registration | None, replaced: str = ""
) -> Headline:
    """The headline for how the run ended. replaced: what the ledger says now where this model is not in production."""
    failed = next((outcome for outcome in outcomes.values() if outcome.state == "failed"), None)
    if failed is not None:
        return _failure(failed)
    if judged is None:
        return Headline(title="Not judged", mood="warn", detail="The run ended before evaluation.")
    made = _refit(outcomes)
    if made is not None and made.refit is not None and made.refit.refused:
        name, _, cause = made.refit.refused.partition(": ")
        detail = f"{_sentence(judged.explanation)} {_sentence(cause)}"
        return Headline(title="Better, but its refit is refused", mood="bad", badge=f"refused: {name}", detail=detail)
    shown = _verdict(judged, registered, replaced)
    if made is not None:
        said = "The registered model is a refit of the one that was measured"
        last = f"{said}, on days up to {made.split.train[-1]}; its own score is not known."
        shown = replace(shown, detail=f"{shown.detail} {last}")
    return replace(shown, badge=f"{judged.verdict} · {judged.reason}")


def _refit(outcomes: Mapping[Stage, Outcome]) -> TrainedModel | None:
    refit = outcomes.get("refit")
    return trained(refit.result) if refit is not None and refit.result is not None else None


def _failure(failed: Outcome) -> Headline:
    """A refusal names the failed checks, in the lines below the first, as validate writes them."""
    first, *lines = failed.because.splitlines() or [""]
    checks = [found[1] for line in lines if (found := _CHECK.match(line))]
    if failed.stage != "validate" or not checks:
        title = f"Stopped at {failed.stage}"
        return Headline(title=title, mood="bad", badge=f"failed: {failed.stage}", detail=failed.because)
    badge = f"refused: {checks[0]}" + (f", and {len(checks) - 1} more" if checks[1:] else "")
    return Headline(title=f"Refused: {first.partition(': ')[2]}", mood="bad", badge=badge, detail="\n".join(lines))


def _verdict(judged: Judgement, registered: Registration | None, replaced: str) -> Headline:
    detail = _sentence(judged.explanation)
    if registered is not None and registered.promoted and replaced:
        title = f"Was promoted: version {registered.version}; not in production now"
        return Headline(title=title, mood="warn", detail=f"{detail} {replaced}")
    if registered is not None and registered.promoted:
        return Headline(title=f"In production: version {registered.version}", mood="good", detail=detail)
    if registered is not None and registered.command:
        detail = f"{detail} Version {registered.version} is registered for that: {registered.command}."
        return Headline(title=_STUCK, mood="warn", detail=detail)
    if registered is not None:
        title = f"Registered as version {registered.version}, not promoted"
        return Headline(title=title, mood="warn", detail=f"{detail} Production did not change: {registered.withheld}.")
    if judged.verdict == "promote":
        return Headline(title="Better, not registered", mood="warn", detail=detail)
    rejected = judged.verdict == "reject"
    title = _REASONS.get(judged.reason, "Rejected" if rejected else "Undecided")
    return Headline(title=title, mood="bad" if rejected else "warn", detail=detail)


def _sentence(text: str) -> str:
    """Text with a capital letter and a full stop."""
    ended = text if text.endswith((".", "!", "?")) else f"{text}."
    # The name of a metric keeps its small letters.
    first = text.partition(" ")[0]
    return ended if not first.isalpha() else f"{ended[:1].upper()}{ended[1:]}"
