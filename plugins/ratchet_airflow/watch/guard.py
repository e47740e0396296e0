"""A part of the watch's work that may fail without holding the other parts."""

from types import TracebackType
from typing import Self

from ratchet.contracts.masking import masked_logger

_log = masked_logger("ratchet.alerts")
_failed: dict[str, None] = {}


class Guard:
    """Logs the error that leaves its block, and goes on. failed: whether there was one."""

    def __init__(self, message: str) -> None:
        self.failed = False
        self._message = message

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.failed = isinstance(error, Exception)
        if self.failed:
            _failed[self._message] = None
            _log.error("%s", self._message, exc_info=error)
        return self.failed


def failures() -> list[str]:
    """The messages of what failed in this process since this was asked last."""
    found = [*_failed]
    _failed.clear()
    return found
