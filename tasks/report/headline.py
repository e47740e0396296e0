"""The headline of a run's page: the result, in a few words and one sentence."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ratchet.contracts.request import Outcome
from ratchet.contracts.stages import Stage
from ratchet.contracts.summaries import Judgement, Registration

Mood = Literal["good", "bad", "warn"]

_REASONS = {
    "not-better": "Rejected: not better than production",
    "slice-loss": "Rejected: the loss on a slice is too large",
    "identical": "Rejected: production already has this model",
    "too-small-to-tell": "Undecided: too little data to tell",
    "baseline-saw-holdout": "Undecided: production was trained on the held-out rows",
    "baseline-missing": "Undecided: the model in production is missing",
    "baseline-unreadable": "Undecided: the model in production cannot be measured",
}


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The headline. mood: its colour; detail: a sentence below it."""

    title: str
    mood: Mood
    detail: str


def headline(outcomes: Mapping[Stage, Outcome], judged: Judgement | None, registered: Registration | None) -> Headline:
    """The headline for how the run ended."""
    failed = next((outcome for outcome in outcomes.values() if outcome.state == "failed"), None)
    if failed is not None:
        return Headline(title=f"Stopped at {failed.stage}", mood="bad", detail=failed.because)
    if judged is None:
        return Headline(title="Not judged", mood="warn", detail="The run ended before evaluation.")
    detail = _sentence(judged.explanation)
    if registered is not None and registered.promoted:
        return Headline(title=f"In production: version {registered.version}", mood="good", detail=detail)
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
