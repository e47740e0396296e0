"""Parts of Airflow that are away: its server, the scheduler, or the triggerer. Runs do not go on then, and none fails.

A run that waits so is `stuck` after twice the time of its stage, which for a training is a day.

A change here violates the promise of the project when the server, a scheduler, or a triggerer for which tasks wait
stays away and nobody hears of it.
"""

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from ratchet.contracts.masking import mask
from ratchet_airflow.watch.waiting import alert_once_a_day

_PATIENCE_S = 900.0
"""A part that is started again, as by an upgrade, is back long before."""
_REMEDY = "What to do: start it: `make up`, or `make serve`; or read its log, and restart it"


class Parts:
    """What it remembers between two looks: since when a part has been away."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None

    def look(self, away: Sequence[str], now: datetime) -> bool:
        """Whether parts are away for too long, to which people are alerted once a day. away: each in words."""
        if not away:
            self._since = None
            return False
        if self._since is None:
            self._since = self._clock()
        silent_s = self._clock() - self._since
        if silent_s <= _PATIENCE_S:
            return False
        since = f"Since {now - timedelta(seconds=silent_s):%Y-%m-%d %H:%M} UTC at least"
        body = f"{since}: {mask('; '.join(away))}\nMeanwhile runs may not go on; containers go on\n{_REMEDY}"
        alert_once_a_day("parts", "Ratchet: a part of Airflow is away", body, now)
        return True
