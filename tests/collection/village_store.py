"""The store of a village, and its clock: a store in memory whose time can be moved on, and whose calls are watched."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from typing_extensions import override

from ratchet.store.memory import MemoryStore


class Clock:
    """Real time, and so many days more."""

    days = 0.0

    def __init__(self) -> None:
        clock = self

        class Moved(datetime):
            @classmethod
            @override
            def now(cls, tz: Any = None) -> Any:
                return datetime.now(tz) + timedelta(days=clock.days)

        moved = SimpleNamespace(time_ns=lambda: time.time_ns() + int(clock.days * 86_400e9))
        self._patches = ExitStack()
        for module in ("ratchet.store.renewal", "ratchet.store.publishing"):
            self._patches.enter_context(patch(f"{module}.datetime", Moved))
        self._patches.enter_context(patch("ratchet.store.memory.time", moved))  # a collection goes by the store's clock

    def stop(self) -> None:
        self._patches.close()

    @property
    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(days=self.days)


class WatchedStore(MemoryStore):
    """Calls `before` with the name of each call to the store that reads or writes; its own calls are not watched."""

    before: Callable[[str, str], None] = staticmethod(lambda name, key: None)

    @override
    def read(self, key: str) -> bytes:
        self.before("read", key)
        return super().read(key)

    @override
    def replace(self, key: str, data: bytes, *, expected: str | None) -> bool:
        self.before("replace", key)
        return super().replace(key, data, expected=expected)

    @override
    def delete(self, key: str, *, expected: str | None = None, written_ns: int | None = None) -> bool:
        self.before("delete", key)
        return super().delete(key, expected=expected, written_ns=written_ns)
