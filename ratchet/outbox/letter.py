"""A letter: one alert to one receiver, as it waits in the store until each address has it."""

import hashlib
from datetime import datetime, timedelta
from random import uniform
from typing import Literal

from pydantic import AwareDatetime

from ratchet.contracts.document import Document

TAKEN = timedelta(minutes=2)
"""For so long a letter belongs to the process that sends it; if that is killed, the next one takes it after this."""
LIMIT = timedelta(hours=24)
"""A letter that no address took for so long is given up."""
_LEAST_TRIES = 6
"""But not before so many tries, of half an hour: it may have waited on a host for the store."""
_FIRST, _LONGEST = timedelta(minutes=1), timedelta(minutes=30)
_JITTER = 0.25


class Letter(Document):
    """What to send, to whom, and what was tried.

    event: the key of the event's own file. receiver: a name of `alerts.to`. kind: of message, for the address. cause:
    what several pipelines may share; letters with the same cause become one message. made: when. due: it is sent no
    sooner. reason: the cause in words. sent: digests of the
    addresses that have it. held: it waits for the summary of its cause. until: the time until which a stage that is to
    be tried again may wait.
    """

    event: str
    receiver: str
    pipeline: str
    occasion: str
    title: str
    body: str
    kind: Literal["info", "success", "warning", "failure"]
    cause: str = ""
    reason: str = ""
    made: AwareDatetime
    due: AwareDatetime
    tries: int = 0
    sent: tuple[str, ...] = ()
    held: bool = False
    until: AwareDatetime | None = None

    def is_old(self, now: datetime) -> bool:
        """Whether it has waited so long, and was tried so often, that it is given up."""
        return now - self.made > LIMIT and self.tries >= _LEAST_TRIES


def delay(tries: int) -> timedelta:
    """How long to wait after so many failed tries: 1 minute, doubled up to 30, with jitter. It never gets shorter."""
    grown: timedelta = _FIRST * float(1 << min(tries - 1, 10)) * uniform(1, 1 + _JITTER)
    return min(_LONGEST, grown)


def address_digest(address: str) -> str:
    """Tells a few addresses from each other, and is too short to find one by trying."""
    return hashlib.sha256(address.encode()).hexdigest()[:8]
