"""An incident: a cause that several pipelines meet, and when there is something to say of it.

A change here violates the promise of the project when an incident is over while a stage still waits for its cause.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from pydantic import AwareDatetime

from ratchet.contracts.document import Document
from ratchet.outbox.letter import Letter

WINDOW = timedelta(seconds=60)
"""After the first alert of a cause, the others within this time are one message."""
_AGAIN = timedelta(hours=1)
"""Between two messages about others that still join, and are to be tried again."""
_FINAL = timedelta(minutes=20)
"""The same if one of them failed for good: a person may have to act. If no other follows, the end comes first."""
_QUIET = timedelta(minutes=15)
"""Without news for so long, a cause is over."""
_OPEN_QUIET = timedelta(minutes=45)
"""The same once no stage waits any more, and some have yet to say how they ended."""
_LEAST_WAIT = timedelta(hours=4)
"""For so long at least a stage waits for what does not answer, without another word."""
REMEMBERED = timedelta(days=1)
"""For so long after its last message, who recovers belongs to an incident that is over."""
_NEEDS_A_PERSON = frozenset({"failure", "refused", "missing"})


class Decided(Document):
    """A message that is decided and may not be out yet. covers: the events whose letters it replaces."""

    letter: Letter
    covers: tuple[str, ...]
    over: bool


class Incident(Document):
    """A cause. members: the last occasion heard of each pipeline. messages: how many went out, the first alert too.

    until: the time until which a stage may wait. closed: its end was said; only recoveries belong to it now.
    """

    receiver: str
    cause: str
    reason: str
    opened: AwareDatetime
    heard: AwareDatetime
    said: AwareDatetime
    messages: int = 1
    announced: bool = False
    members: Mapping[str, str] = {}
    decided: Decided | None = None
    until: AwareDatetime | None = None
    closed: bool = False


def opened_by(letter: Letter, now: datetime) -> Incident:
    """The incident that a first alert makes."""
    return Incident(
        receiver=letter.receiver,
        cause=letter.cause,
        reason=letter.reason or letter.title,
        opened=now,
        heard=now,
        said=now,
        members={letter.pipeline: letter.occasion},
        until=latest(None, [letter]),
    )


def latest(until: datetime | None, letters: Sequence[Letter]) -> datetime | None:
    """The time until which one of the stages may wait."""
    waits = [letter.until or letter.made + _LEAST_WAIT for letter in letters if letter.occasion == "retry"]
    return max([*waits, *([until] if until else [])], default=None)


def is_over(incident: Incident, now: datetime) -> bool:
    """Whether all have recovered, or none of those that have not is to be heard of again."""
    if not left(incident):
        return now - incident.heard >= WINDOW
    if incident.closed:
        return False
    if not of(incident, "retry"):
        return now - incident.heard >= _QUIET
    return now - max(incident.heard, incident.until or incident.heard) >= _OPEN_QUIET


def is_due(incident: Incident, letters: Sequence[Letter], now: datetime) -> bool:
    """Whether the letters have waited for long enough. Recoveries alone need nobody, so they wait for the end."""
    if all(letter.occasion == "recovered" for letter in letters):
        return any(now - letter.made >= _AGAIN for letter in letters)
    if incident.messages == 1:
        return now - incident.opened >= WINDOW
    needed = any(letter.occasion in _NEEDS_A_PERSON for letter in letters)
    return now - incident.said >= (_FINAL if needed else _AGAIN)


def left(incident: Incident) -> int:
    """How many pipelines have not recovered."""
    return len(incident.members) - len(of(incident, "recovered"))


def of(incident: Incident, occasion: str) -> list[str]:
    """The pipelines of which this was heard last."""
    return sorted(name for name, last in incident.members.items() if last == occasion)
