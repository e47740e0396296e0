"""Calls that may take too long: they go on in a thread, and nobody waits for them."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Generic, TypeVar

from ratchet.contracts.errors import Unavailable

T = TypeVar("T")


class Deadline:
    """So many seconds for all calls together."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def over(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() >= self._end

    def call(self, do: Callable[[], T]) -> T:
        """What it returns or raises. Raises Unavailable if it has not ended in time; it may still end later."""
        ended: _End[T] = _End()

        def run() -> None:
            with ended:
                ended.found.append(do())

        thread = threading.Thread(target=run, name="ratchet-alert", daemon=True)
        thread.start()
        thread.join(max(0.0, self._end - time.monotonic()))
        if ended.error is not None:
            raise ended.error
        if not ended.found:
            raise Unavailable(f"no answer within {self.seconds:g} s")
        return ended.found[0]


class _End(Generic[T]):
    """How the call in its block ended."""

    def __init__(self) -> None:
        self.found: list[T] = []
        self.error: BaseException | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.error = error
        return True
