"""A stage looks at the lease of its work while it runs: it shows that it lives, and stops once another replaces it.

A change here violates the promise of the project when a stage goes on beside its successor, or when one that does not
reach the store goes on for LOST_S.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ratchet.contracts import paths
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.exits import ExitCode
from ratchet.contracts.quantities import show_duration
from ratchet.contracts.request import StageRequest
from ratchet.runtime.logs import StageLog
from ratchet.store.base import Store
from ratchet.store.lease import DAMAGED, OF_ANOTHER_RELEASE, holder_of
from ratchet.store.place import CUT_OFF_S, LOOK_S

LAST_S = 900.0
"""Seconds that a stage may take to end which is cut off from the store, whatever its grace: then LOST_S is near."""
_UNREAD = frozenset({DAMAGED, OF_ANOTHER_RELEASE})
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Of the host; the first one also counts while the host is suspended."""


class _Fence:
    """end: how the process ends if the notice to stop did not end it in its grace."""

    def __init__(self, store: Store, request: StageRequest, log: StageLog, end: Callable[[int], object]) -> None:
        self.over = threading.Event()
        self._store, self._request, self._log, self._end = store, request, log, end
        self._lease = paths.lease(request.spec.name, request.stage, request.fingerprint)
        self._etag: str | None = None

    def watch(self) -> None:
        """Look again and again, until it is over or the stage has to stop."""
        reached, looks = _now(), 0
        while True:
            try:
                other = self._replaced_by(shows=looks > 0)  # the lease was written just before the stage began
                looks += 1
                reached = _now()
            except (RatchetError, OSError):
                other = None
            cut_off = _now() - reached > CUT_OFF_S
            if other is not None or cut_off:
                why = f"attempt {other} has replaced this one, {self._request.attempt}"
                away = f"the store was out of reach for {show_duration(round(CUT_OFF_S))}"
                grace_s = self._request.spec.settings_of(self._request.stage).grace
                return self._stop(away if cut_off else why, min(grace_s, LAST_S) if cut_off else grace_s)
            if self.over.wait(LOOK_S):
                return None

    def _replaced_by(self, *, shows: bool) -> str | None:
        """The attempt that has the work now, if it is another one. Else the sign of life is written, if it `shows`."""
        lease = holder_of(self._store, self._lease)
        if lease is None or lease.attempt in _UNREAD:
            return None
        if lease.attempt != self._request.attempt:
            return lease.attempt or "none"
        if shows and lease.place is not None:
            self._sign(lease.place.sign)
        return None

    def _sign(self, key: str) -> None:
        content = self._request.attempt.encode()
        self._etag = self._store.swap(key, content, expected=self._etag) if self._etag else None
        if self._etag is None:
            found = self._store.head(key)
            self._etag = self._store.swap(key, content, expected=found.etag) if found else None
            if found is None:
                self._store.create(key, content)

    def _stop(self, why: str, grace_s: float) -> None:
        self._log.event("stopping", f"{why}: {self._request.stage} stops", level="warning")
        os.kill(os.getpid(), signal.SIGTERM)
        if not self.over.wait(grace_s):
            self._end(int(ExitCode.TRY_AGAIN))


@contextmanager
def fenced(
    store: Store, request: StageRequest, log: StageLog, *, end: Callable[[int], object] = os._exit
) -> Iterator[None]:
    """Look at the lease during the block, at once and then every LOOK_S, in a thread."""
    fence = _Fence(store, request, log, end)
    thread = threading.Thread(target=_quietly, args=(fence,), name="fence", daemon=True)
    thread.start()
    try:
        yield
    finally:
        fence.over.set()


def _quietly(fence: _Fence) -> None:
    with suppress(RatchetError):
        fence.watch()


def _now() -> float:
    return time.clock_gettime(_CLOCK)
