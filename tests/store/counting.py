"""A store in memory that records its downloads."""

from pathlib import Path

from ratchet.store.memory import MemoryStore


class CountingStore(MemoryStore):
    """downloads: the keys, in order."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.downloads: list[str] = []

    def download(self, key: str, path: Path) -> None:
        """As any store does, and noted."""
        self.downloads.append(key)
        super().download(key, path)
