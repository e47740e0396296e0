"""Output of a program as lines: bytes in pieces of any size in, lines of bounded length out."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Stream = Literal["stdout", "stderr"]

LONGEST_LINE = 64 << 10
"""Bytes of a line that are kept. What is past them is counted and dropped."""

_END = re.compile(rb"[\r\n]")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of output, without its end."""

    stream: Stream
    text: str


class Splitter:
    r"""Cuts one stream into lines at \n, \r and \r\n. Holds at most one line, capped."""

    def __init__(self, stream: Stream, longest: int = LONGEST_LINE) -> None:
        self._stream: Stream = stream
        self._longest = longest
        self._held = bytearray()
        self._dropped = 0
        self.after_return = False
        """Whether the piece before ended in a carriage return: a line feed that follows belongs to it."""

    @property
    def holds(self) -> bool:
        """Whether a line has begun and not ended."""
        return bool(self._held or self._dropped)

    def feed(self, data: bytes) -> Iterator[Line]:
        """The lines that end in this piece."""
        begin = 0
        if data and self.after_return:
            begin = data[:1] == b"\n"
            self.after_return = False
        while found := _END.search(data, begin):
            self._hold(data[begin : found.start()])
            yield self._cut()
            begin = found.end()
            if found.group() == b"\r":
                if begin == len(data):
                    self.after_return = True
                elif data[begin : begin + 1] == b"\n":
                    begin += 1
        self._hold(data[begin:])

    def close(self) -> Iterator[Line]:
        """What stood after the last line end, if anything."""
        if self._held or self._dropped:
            yield self._cut()

    def _hold(self, piece: bytes) -> None:
        room = max(0, self._longest - len(self._held))
        self._held += piece[:room]
        self._dropped += max(0, len(piece) - room)

    def _cut(self) -> Line:
        text = self._held.decode("utf-8", errors="replace")
        if self._dropped:
            text += f" [{self._dropped} more bytes]"
        self._held.clear()
        self._dropped = 0
        return Line(self._stream, text)
