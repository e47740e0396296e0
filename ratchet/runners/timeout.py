"""Stopping a job after a time, whatever the thread that follows it is busy with."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from ratchet.runners.patience import patiently

if TYPE_CHECKING:
    from ratchet.runners.runner import Runner


class Timeout:
    """Stops a job after a time, from a thread of its own. On leaving, it is called off, or waited for if it fired."""

    def __init__(
        self,
        runner: "Runner",
        handle: str,
        seconds: float,
        grace_s: float,
        *,
        patience_s: float,
        is_ours: Callable[[], bool],
    ) -> None:
        """is_ours: asked before the job is stopped, which another may have taken over."""
        self.fired = False
        self.error: Exception | None = None
        self._runner, self._handle, self._grace_s, self._patience_s = runner, handle, grace_s, patience_s
        self._is_ours = is_ours
        self._timer = threading.Timer(max(0.0, seconds), self._fire)
        self._timer.daemon = True

    def _fire(self) -> None:
        try:
            patiently(self._stop, self._patience_s)
        except Exception as error:  # noqa: BLE001 - handed over to the caller's thread
            self.error = error

    def _stop(self) -> None:
        if self._is_ours() and self._runner.status(self._handle).running:
            self.fired = True
            self._runner.stop(self._handle, self._grace_s)

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._timer.cancel()
        if kind is None:
            self._timer.join()
