"""What kills a process at one of the calls that the delivery of an alert makes."""

import os
import signal
from typing import Any

from ratchet.store.base import Store

_CALLS = frozenset({"read", "create", "replace", "list", "head", "delete"})


class Kill:
    """Kills this process at one of its calls: `left` calls from now, by SIGKILL."""

    def __init__(self, left: int) -> None:
        self.left = left

    def count(self) -> None:
        """One call more."""
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


class CountedStore:
    """A store whose every call is one at which the process may be killed: before it, and after it."""

    def __init__(self, store: Store, killed: Kill) -> None:
        self._store, self._killed = store, killed

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)
        if name not in _CALLS:
            return real

        def call(*given: Any, **named: Any) -> Any:
            self._killed.count()
            found = real(*given, **named)
            return list(found) if name == "list" else found

        return call
