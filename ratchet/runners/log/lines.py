"""Output of a program as lines: bytes in pieces of any size in, lines of bounded length out."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Stream = Literal["stdout", "stderr"]

LONGEST_LINE = 64 << 10
"""Bytes of a line that are kept. The rest is counted and dropped."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of output, without its end."""

    stream: Stream
    text: str


class Splitter:
    r"""Cuts one stream into lines at \n, \r and \r\n. Holds at most one line, of at most `longest` bytes."""

    def __init__(self, stream: Stream, longest: int = LONGEST_LINE) -> None:
        self._stream: Stream = stream
        self._longest = longest
        self._held = bytearray()
        self._dropped = 0
        self._after_return = False
        """Whether the bytes before ended in a carriage return: a line feed that follows belongs to it."""

    def feed(self, data: bytes) -> Iterator[Line]:
        """The lines that end in these bytes."""
        begin = 1 if self._after_return and data[:1] == b"\n" else 0
        if data:
            self._after_return = data[-1:] == b"\r"
        for piece in data[begin:].splitlines(keepends=True):
            if (line := self.take(piece)) is not None:
                yield line

    def take(self, piece: bytes) -> Line | None:
        """The line that ends with this piece, or None if it goes on. piece: has a line end at its end, or none."""
        text = piece.rstrip(b"\r\n")
        whole = len(text) < len(piece)
        if whole and not self._held and len(text) <= self._longest:  # nearly always, and quicker than what follows
            return Line(self._stream, text.decode("utf-8", "replace"))
        self._hold(text)
        return self._cut() if whole else None

    def close(self) -> Iterator[Line]:
        """The text after the last line end, if there is any."""
        if self._held:
            yield self._cut()

    def _hold(self, text: bytes) -> None:
        room = self._longest - len(self._held)
        self._held += text[:room]
        self._dropped += max(0, len(text) - room)

    def _cut(self) -> Line:
        text = self._held.decode("utf-8", "replace")
        if self._dropped:
            text += f" [{self._dropped} more bytes]"
        self._held.clear()
        self._dropped = 0
        return Line(self._stream, text)
