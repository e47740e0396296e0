"""Wall-clock time of the loop: laps, and actions that are due every few seconds."""

import time


class Stopwatch:
    """Measures laps, from its construction on."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def lap(self) -> float:
        """Seconds since the last lap."""
        before, self._last = self._last, time.monotonic()
        return self._last - before


class Interval:
    """Says when an action is due that runs at most once in `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last = time.monotonic()

    def is_due(self) -> bool:
        """Whether the interval is over; if so, the next one starts."""
        now = time.monotonic()
        if now - self._last < self._seconds:
            return False
        self._last = now
        return True
