"""The guard rails of a verdict as lines of a table, and what a candidate was compared with, in words."""

from typing import NamedTuple

from ratchet.contracts.judgements import GuardJudgement, Proof
from ratchet.contracts.quantities import percent
from ratchet.contracts.summaries import Judgement
from ratchet.pages.words import interval

_MOODS = {"passed": "good", "failed": "bad", "not-provable": "warn"}


class GuardLine(NamedTuple):
    """A guard rail. outcome: passed, failed or not-provable, and mood its colour."""

    name: str
    found: str
    allowed: str
    outcome: Proof
    mood: str


def guard_lines(judged: Judgement) -> list[GuardLine]:
    """The guard rails in the order of the gate."""
    return [_line(one) for one in judged.guards]


def rival(judged: Judgement) -> str:
    """What the candidate was compared with."""
    words = {"champion": "production", "constant": "a constant scorer", "popularity": "a table of mean labels"}
    return words[judged.baseline_kind]


def _line(one: GuardJudgement) -> GuardLine:
    mood = _MOODS[one.outcome]
    if one.kind == "metric":
        return GuardLine(one.name, interval(one.found), f"a loss of {percent(one.limit)}", one.outcome, mood)
    bounds = "not measurable"
    if one.found is not None:
        value, low, high = (f"{bound:.4g}" for bound in (one.found.value, one.found.low, one.found.high))
        bounds = value if low == high else f"{value} ({low} to {high})"
    if one.kind == "floor":
        return GuardLine(f"{one.name}, floor", bounds, f"better than {one.limit:g}", one.outcome, mood)
    return GuardLine(f"{one.name}, times the champion's", bounds, f"{one.limit:g}", one.outcome, mood)
