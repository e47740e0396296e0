"""The engine's log of a container: entries of either stream, each with its time, read as lines from any point on.

An entry is a line with its end, or 16 KiB of a longer one; carriage returns may cut it into more lines. A log is read
in more than one go because engines drop the end of a log that is followed more slowly than it is written (20.10 stops
following when the container ends), because an engine may restart, and because a follower may be killed.
"""

from collections.abc import Iterator
from typing import Protocol

from ratchet.runners.log.lines import Line, Splitter, Stream
from ratchet.runners.log.position import Mark, Position

_STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")
_NUMBERS = {1: 0, 2: 1}
_HEADER = 8
_PIECE = 1 << 20


class Readable(Protocol):
    """The body of a response."""

    def read1(self, amount: int) -> bytes:
        """What has arrived, at most `amount` bytes; blocks until there is one byte. Empty at the end."""
        ...


def read_lines(raw: Readable, position: Position, *, last: bool = False) -> Iterator[Line]:
    """The lines of a body that are after a position, which moves behind each line before that is yielded.

    A line that has not ended with the body is left out, and the position stays before it. last: the log is complete,
    so that text after the last line end is a line, too.
    """
    readers = tuple(_Reader(stream, mark) for stream, mark in zip(_STREAMS, position.marks, strict=True))
    for number, entry in _frames(raw):
        yield from readers[number].feed(entry)
    if last:
        for reader in readers:
            yield from reader.close()


class _Reader:
    """Turns one stream's entries into lines, and moves the stream's mark."""

    def __init__(self, stream: Stream, mark: Mark) -> None:
        self._mark = mark
        self._splitter = Splitter(stream)
        self._known = (mark.time, mark.count)
        self._time, self._count = b"", 0

    def feed(self, entry: bytes) -> Iterator[Line]:
        """The lines that end in this entry and are after the mark."""
        time, _, text = entry.partition(b" ")
        if time != self._time:
            self._time, self._count = time, 0
        for piece in text.splitlines(keepends=True):
            self._count += 1
            if (time, self._count) <= self._known:
                continue
            self._known = (b"", 0)  # from here on all is new, also where the machine's clock is set back
            line = self._splitter.take(piece)
            if line is not None:
                self._move(self._count)
                yield line
            elif not self._mark.held:
                self._move(self._count - 1, held=True)

    def close(self) -> Iterator[Line]:
        """The text after the last line end, if there is any."""
        for line in self._splitter.close():
            self._move(self._count)
            yield line

    def _move(self, count: int, *, held: bool = False) -> None:
        self._mark.time, self._mark.count, self._mark.held = self._time, count, held


def _frames(raw: Readable) -> Iterator[tuple[int, bytes]]:
    """A frame is a stream's number, three zeros, a length in four bytes, and as many bytes: a time and up to 16 KiB."""
    held = b""
    while piece := raw.read1(_PIECE):
        data = held + piece if held else piece
        begin, end = 0, len(data)
        while end - begin >= _HEADER:
            after = begin + _HEADER + int.from_bytes(data[begin + 4 : begin + _HEADER], "big")
            if after > end:
                break
            yield _NUMBERS[data[begin]], data[begin + _HEADER : after]
            begin = after
        held = data[begin:]
