"""The words of a verdict: figures, bounds, guard rails, attempts."""

import math
from collections.abc import Sequence
from datetime import date

from ratchet.contracts.judgements import GuardJudgement, Interval, SliceJudgement
from ratchet.contracts.quantities import percent

_SHOWN = 3
"""As many names as fit a sentence."""
_WORDS = ("second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def figure(value: float) -> str:
    """Four digits of a metric, and no fewer than its whole number."""
    return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"  # noqa: PLR2004 - above, .4g drops digits


def confidence(level: float) -> str:
    """A confidence with two digits of what is left to its error: 0.955 -> `95.5 %`, 0.99985 -> `99.985 %`."""
    digits = max(0, 1 - math.floor(math.log10(100 * (1 - level)))) if level < 1 else 0
    text = f"{100 * level:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"


def bounds(gain: Interval, sure: str) -> str:
    """A gain and its lower bound, up to a bracket that stays open."""
    return f"{percent(gain.value, signed=True)} (with {sure} confidence at least {percent(gain.low, signed=True)}"


def attempt(number: int, days: Sequence[date]) -> str:
    """`third attempt at 2026-11-20: `; empty for the first."""
    if number == 1:
        return ""
    word = _WORDS[number - 2] if number - 2 < len(_WORDS) else f"{number}th"
    span = f" {days[0]} to {days[-1]}" if len(days) > 1 else f" {days[0]}" if days else " these days"
    return f"{word} attempt at{span}: "


def slice_loss(one: SliceJudgement) -> str:
    """A slice with its gain."""
    if one.gain is None:
        return f"{one.name} (not measurable)"
    value, low, high = (percent(bound, signed=True) for bound in (one.gain.value, one.gain.low, one.gain.high))
    return f"{one.name} ({value}, {low} to {high})"


def guard(one: GuardJudgement) -> str:
    """A guard rail with what was found and what is allowed."""
    if one.found is None:
        return f"{one.name} (not measurable)"
    if one.kind == "metric":
        value, low, high = (percent(bound, signed=True) for bound in (one.found.value, one.found.low, one.found.high))
        return f"{one.name} ({value}, {low} to {high}; allowed: {percent(-one.limit)})"
    if one.kind == "floor":
        value, low, high = map(figure, (one.found.value, one.found.low, one.found.high))
        return f"{one.name} ({value}, {low} to {high}; required: {figure(one.limit)})"
    between = "" if one.found.low == one.found.high else f", {one.found.low:.3g} to {one.found.high:.3g}"
    return f"{one.name} ({one.found.value:.3g} times the champion's{between}; allowed: {one.limit:g})"


def listed(names: Sequence[str]) -> str:
    """Up to three names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
