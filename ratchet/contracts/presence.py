"""The mark that a server leaves in the store while it lives."""

from datetime import datetime

from ratchet.contracts.document import Document

AWAY_S = 1800.0
"""Seconds after which a server counts as away: more than one is that is restarted, or whose host is."""


class Presence(Document):
    """That a server is there.

    at: when it wrote this. heartbeat: of a watch that sends heartbeats outside, when the last one went out, or since
    when it has tried to send the first; both by its own clock.
    """

    at: datetime
    heartbeat: datetime | None = None
