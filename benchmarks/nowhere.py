"""A checkpoint folder that keeps nothing."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from tasks.train.parts import Output


class Nowhere:
    """What a training writes to whose state nobody needs."""

    def put(self, name: str, data: bytes) -> None:
        """Keep nothing."""

    def write(self, name: str, content: Callable[[Output], None]) -> None:
        """Keep nothing."""

    def get(self, name: str) -> bytes:
        """Raise FileNotFoundError."""
        raise FileNotFoundError(name)

    def fetch(self, name: str) -> AbstractContextManager[Path]:
        """Raise FileNotFoundError."""
        raise FileNotFoundError(name)

    def names(self) -> tuple[str, ...]:
        """None."""
        return ()

    def remove(self, name: str) -> None:
        """Do nothing."""

    def others(self) -> "tuple[Nowhere, ...]":
        """None."""
        return ()
