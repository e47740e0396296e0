"""Waiting for what comes about by itself."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_LONGEST_S = 2.0
_SLEEPS = 9
"""Times as long as asking took."""


def until(asked: Callable[[], T | None], *, seconds: float = 30, every: float = 0.05) -> T:
    """Ask again and again until there is an answer, something true; the answer. Fails after so many seconds.

    Asking takes about a tenth of the time: who is asked has work to do, and shares few cores with others.
    """
    end = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if answer := asked():
            return answer
        now = time.monotonic()
        assert now < end, f"still nothing after {seconds} s"
        time.sleep(max(every, min(_LONGEST_S, _SLEEPS * (now - began))))
