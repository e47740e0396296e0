"""Waiting for an engine that restarts: it may be silent for a while, and what it runs goes on meanwhile."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from ratchet.contracts.errors import Unavailable

_Answer = TypeVar("_Answer")
_log = logging.getLogger(__name__)
_PAUSE_S = 0.5


def patiently(ask: Callable[[], _Answer], limit_s: float) -> _Answer:
    """What `ask` returns, asked again for `limit_s` seconds while it raises Unavailable. One warning is logged."""
    began = None
    while True:
        try:
            answer = ask()
        except Unavailable as error:
            now = time.monotonic()
            if began is None:
                began = now
                _log.warning("%s; waiting for it, %.0f s at most", error.cause, limit_s)
            if now - began > limit_s:
                raise Unavailable(f"{error.cause}; waited {now - began:.0f} s", remedy=error.remedy) from error
            time.sleep(min(_PAUSE_S, limit_s))
        else:
            if began is not None:
                _log.warning("it answers again after %.0f s", time.monotonic() - began)
            return answer
