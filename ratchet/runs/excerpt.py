"""The first and the last part of a text of any length, in bounded memory."""

from collections import deque
from collections.abc import Iterator


class Excerpt:
    """Keeps the first and the last lines of a text, `part_bytes` of each, and counts what is between them.

    A line that is longer than a part is kept as its first bytes.
    """

    def __init__(self, part_bytes: int) -> None:
        self._part_bytes = part_bytes
        self._first: list[str] = []
        self._last: deque[str] = deque()
        """No sizes beside them: a log of empty lines would take many times the bytes of its text."""
        self._first_bytes = self._last_bytes = 0
        self._lines = self._bytes = 0
        self._full = False

    def add(self, line: str) -> None:
        """Add one line, without its end."""
        line = self._cut(line)
        size = _size(line)
        if not self._full and self._first_bytes + size <= self._part_bytes:
            self._first.append(line)
            self._first_bytes += size
            return
        self._full = True
        self._last.append(line)
        self._last_bytes += size
        while self._last_bytes > self._part_bytes:
            dropped = _size(self._last.popleft())
            self._last_bytes -= dropped
            self._lines += 1
            self._bytes += dropped

    def lines(self) -> Iterator[str]:
        """The lines, with one that says what is left out where it is left out."""
        yield from self._first
        if self._lines:
            yield f"[{self._lines:,} lines ({self._bytes:,} bytes) are left out here]"
        yield from self._last

    def _cut(self, line: str) -> str:
        data = line.encode("utf-8", "replace")
        more = len(data) + 1 - self._part_bytes
        if more <= 0:
            return line
        note = f" [{more:,} more bytes]"
        kept = data[: max(0, self._part_bytes - 1 - len(note))].decode("utf-8", "ignore")
        return kept + note


def _size(line: str) -> int:
    """The bytes of a line with its end."""
    return (len(line) if line.isascii() else len(line.encode("utf-8", "replace"))) + 1
