"""New keys for a stage that runs: its worker asks for them, and writes them where the stage reads them.

A change here violates the promise of the project when a stage that runs longer than its keys are valid loses the store.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from ratchet.contracts.errors import JobGone, RatchetError

EVERY_S = 60.0
"""Seconds between two questions. Sources of session tokens give new ones at least five minutes before the end."""
SILENT_S = 600.0
"""Seconds without an answer, or without passing it on, after which it is an error: the keys may expire."""
_log = logging.getLogger(__name__)


@contextmanager
def keys_renewed(
    keys: Callable[[], bytes | None], renew: Callable[[bytes], None], *, given: bytes | None
) -> Iterator[None]:
    """Pass new keys on during the block. given: those that the stage has; None if that is not known.

    What cannot be asked for or passed on is tried again: the stage goes on with the keys that it has.
    """
    over = Event()

    def follow() -> None:
        has, first = given, given is None
        answered = time.monotonic()
        while first or not over.wait(EVERY_S):
            first = False
            try:
                found = keys()
                if found is not None and found != has:
                    renew(found)
                    has = found
                answered = time.monotonic()
            except JobGone:
                return
            except Exception as error:  # noqa: BLE001 - without this thread the stage loses the store
                cause = error.cause if isinstance(error, RatchetError) else f"{type(error).__name__}: {error}"
                silent_s = time.monotonic() - answered
                if silent_s < SILENT_S:
                    _log.warning("the keys of the stage are not renewed yet: %s", cause)
                else:
                    _log.error("the keys of the stage are not renewed for %.0f minutes: %s", silent_s / 60, cause)

    thread = Thread(target=follow, name="keys", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
