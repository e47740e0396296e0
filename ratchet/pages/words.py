"""A run in words: what happened, in a headline, and numbers as people read them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ratchet.contracts.request import Outcome
from ratchet.contracts.stages import Stage
from ratchet.contracts.summaries import Interval, Judgement, Registration

Mood = Literal["good", "bad", "warn"]

_REASONS = {
    "not-better": "Rejected: not better than production",
    "slice-loss": "Rejected: it loses too much for some",
    "identical": "Rejected: production has this very model",
    "too-small-to-tell": "Undecided: too little data to tell",
    "baseline-saw-holdout": "Undecided: production has seen the rows it is judged on",
    "baseline-missing": "Undecided: the model in production is gone",
    "baseline-unreadable": "Undecided: the model in production cannot be measured",
}


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The first thing that a person reads. mood: its colour; detail: a sentence below it."""

    title: str
    mood: Mood
    detail: str


def headline(outcomes: Mapping[Stage, Outcome], judged: Judgement | None, registered: Registration | None) -> Headline:
    """How the run ended, told from what there is of it."""
    failed = next((outcome for outcome in outcomes.values() if outcome.state == "failed"), None)
    if failed is not None:
        return Headline(title=f"Stopped at {failed.stage}", mood="bad", detail=failed.because)
    if judged is None:
        return Headline(title="Not judged", mood="warn", detail="The run did not come to an evaluation.")
    if registered is not None and registered.promoted:
        return Headline(
            title=f"In production: version {registered.version}", mood="good", detail=sentence(judged.explanation)
        )
    if registered is not None:
        detail = f"{sentence(judged.explanation)} Production did not move: {registered.withheld}."
        return Headline(title=f"Registered as version {registered.version}, not promoted", mood="warn", detail=detail)
    if judged.verdict == "promote":
        return Headline(title="Better, not registered", mood="warn", detail=sentence(judged.explanation))
    title = _REASONS.get(judged.reason, "Rejected" if judged.verdict == "reject" else "Undecided")
    return Headline(
        title=title, mood="bad" if judged.verdict == "reject" else "warn", detail=sentence(judged.explanation)
    )


def sentence(text: str) -> str:
    """Text with a capital letter and a full stop."""
    ended = text if text.endswith((".", "!", "?")) else f"{text}."
    # Names of metrics stay as they are written everywhere else.
    first = text.partition(" ")[0]
    return ended if not first.isalpha() else f"{ended[:1].upper()}{ended[1:]}"


def percent(value: float) -> str:
    """A relative value with its sign: +1.25%."""
    return f"{100 * value:+.2f}%".replace("-", "\N{MINUS SIGN}")


def interval(gain: Interval | None) -> str:
    """A gain and its bounds."""
    return f"{percent(gain.value)} ({percent(gain.low)} to {percent(gain.high)})" if gain else "not measurable"


def seconds(value: float) -> str:
    """A duration: 0.4 s, 12 s, 3 min 20 s, 2 h 05 min."""
    if value < 10:  # noqa: PLR2004 - below it tenths matter
        return f"{value:.1f} s"
    if value < 60:  # noqa: PLR2004 - seconds in a minute
        return f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"  # noqa: PLR2004 - the same
