"""Parts of Airflow that are away: its server, the scheduler, or the triggerer. Runs do not go on then, and none fails.

A run that waits so is `stuck` after twice the time of its stage, which for a training is a day.

A change here violates the promise of the project when the server, a scheduler, or a triggerer for which tasks wait
stays away and nobody hears of it, also where another part was away on the same day.
"""

import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from ratchet.contracts.masking import mask
from ratchet_airflow.watch.waiting import alert_once_a_day

_PATIENCE_S = 900.0
"""A part that is started again, as by an upgrade, is back long before."""
_REMEDY = "What to do: start it: `make up`, or `make serve`; or read its log, and restart it"


class Parts:
    """What it remembers between two looks: since when each part has been away, by both clocks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[str, tuple[float, datetime]] = {}

    def look(self, away: Mapping[str, str], now: datetime) -> bool:
        """Whether parts are away for too long, to which people are alerted once a day.

        away: what each of them does, in words, by its name. One that goes away later on that day is said, too, with the
        others.
        """
        self._since = {name: self._since.get(name, (self._clock(), now)) for name in away}
        late = {name: began for name, began in self._since.items() if self._clock() - began[0] > _PATIENCE_S}
        if not late:
            return False
        silent_s = max(self._clock() - began for began, _ in late.values())
        since = f"Since {now - timedelta(seconds=silent_s):%Y-%m-%d %H:%M} UTC at least"
        said = mask("; ".join(away[name] for name in late))
        body = f"{since}: {said}\nMeanwhile runs may not go on; containers go on\n{_REMEDY}"
        newest = max(first for _, first in late.values())
        alert_once_a_day("parts", "Ratchet: a part of Airflow is away", body, now, since=newest)
        return True
