"""The engine's log of a container: entries of either stream, each with its time, read as lines from any point on.

Reading on is needed because engines drop the end of a log that is followed more slowly than it is written (seen in
20.10: the follower gives up when the container ends), because an engine may restart, and because a follower may die and
another go on for it.
"""

import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol, Self

from ratchet.runners.log.lines import LONGEST_LINE, Line, Splitter, Stream

STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")
_NUMBERS = {1: 0, 2: 1}
_HEADER = 8
_PIECE = 1 << 20
_DISORDER = timedelta(seconds=1)
"""The engine writes the two streams' entries down in turn, each with the time at which it was read: nearly in order."""

_ALL = (1 << 64) - 1
"""Of an entry's lines: even what stood after the last line end, at the end of a log."""
_MARK = struct.Struct("<40sQQ???5x")


class Readable(Protocol):
    """A response's body as it comes."""

    def read1(self, amount: int) -> bytes:
        """What is there, at most `amount` bytes, waiting for one byte at least; nothing at the end."""
        ...


@dataclass(slots=True)
class Mark:
    """Where the next line of a stream begins: in which entry, and after how many line ends of that entry.

    time, count: of the entry, as the engine writes it, and which of this stream's entries of that very time it is.
    after_return, ends_in_return: the entry before ended in a carriage return; this one did. held: a line has begun and
    has not ended.
    """

    time: bytes = b""
    count: int = 0
    lines: int = 0
    after_return: bool = False
    held: bool = False
    ends_in_return: bool = False


@dataclass(slots=True)
class Position:
    """How far a log has been read, in lines: nothing that is before it is given again, nothing after it is left out."""

    marks: tuple[Mark, Mark] = field(default_factory=lambda: (Mark(), Mark()))

    @property
    def since(self) -> dict[str, str]:
        """As a parameter of the engine's API, which takes seconds and nanoseconds and includes that moment."""
        newest = max(mark.time for mark in self.marks)
        if not newest:
            return {}
        begin = _moment(newest) - _DISORDER
        begin = min([begin, *(_moment(mark.time) for mark in self.marks if mark.held)])
        return {"since": f"{int(begin.timestamp())}.{begin.microsecond:06}"}

    def pack(self) -> bytes:
        """As bytes of a fixed number."""
        return b"".join(
            [
                _MARK.pack(mark.time, mark.count, mark.lines, mark.after_return, mark.held, mark.ends_in_return)
                for mark in self.marks
            ]
        )

    @classmethod
    def unpack(cls, packed: bytes) -> Self | None:
        """What `pack` gave, or None if it is something else."""
        if len(packed) != 2 * _MARK.size:
            return None
        stdout, stderr = (Mark(time.rstrip(b"\0"), *rest) for time, *rest in _MARK.iter_unpack(packed))
        position = cls((stdout, stderr))
        try:
            position.since  # noqa: B018 - it reads the times
        except ValueError:
            return None
        return position

    def lines(self, raw: Readable, *, last: bool = False) -> Iterator[Line]:
        """The lines of a body that are past this position, which stands behind each line once that is given.

        A line that has not ended with the body is not given, and the position stays before it. last: the log will not
        go on, so that what stands after the last line end is a line, too.
        """
        readers = tuple(_Reader(stream, mark) for stream, mark in zip(STREAMS, self.marks, strict=True))
        for number, entry in _frames(raw):
            yield from readers[number].feed(entry)
        if last:
            for reader in readers:
                yield from reader.close()


class _Reader:
    """One stream's entries to lines, from its mark on, which moves along."""

    def __init__(self, stream: Stream, mark: Mark) -> None:
        self._stream: Stream = stream
        self._mark = mark
        self._splitter = Splitter(stream)
        self._splitter.after_return = mark.ends_in_return  # the engine may leave out the entry, which is given already
        self._known, self._known_count, self._lines_given = mark.time, mark.count, mark.lines
        self._past = not mark.time  # whether what comes is beyond where the mark stood at first
        self._time, self._count = b"", 0  # of the newest entry of the body
        self._whole = True  # no line has begun

    def feed(self, entry: bytes) -> Iterator[Line]:
        """The lines that end in this entry, and were not given before."""
        time, _, text = entry.partition(b" ")
        self._count = self._count + 1 if time == self._time else 1
        self._time = time
        mark = self._mark
        if not self._past:
            if time < self._known or (time == self._known and self._count < self._known_count):
                return
            self._past = True
            if time == self._known and self._count == self._known_count:
                yield from self._again(text)
                return
        length = len(text)
        if self._whole and 1 < length < LONGEST_LINE and text.find(b"\n") == length - 1 and b"\r" not in text:
            # One whole line, as nearly always: the same as below, and several times quicker.
            mark.time, mark.count, mark.lines, mark.after_return, mark.held = time, self._count, 1, False, False
            self._splitter.after_return = mark.ends_in_return = False
            yield Line(self._stream, text[:-1].decode("utf-8", "replace"))
        else:
            yield from self._split(text, 0)

    def _again(self, text: bytes) -> Iterator[Line]:
        """The entry at which the mark stands, of which some lines were given."""
        self._splitter.after_return = self._mark.after_return
        yield from self._split(text, self._lines_given)
        if self._lines_given == _ALL:
            deque(self._splitter.close(), 0)
            self._whole, self._mark.lines, self._mark.held = True, _ALL, False

    def _split(self, text: bytes, skip: int) -> Iterator[Line]:
        mark, splitter = self._mark, self._splitter
        before = splitter.after_return
        if self._whole:  # otherwise the line began in an entry before, and that is where to read it again
            mark.time, mark.count, mark.lines, mark.after_return, mark.held = self._time, self._count, 0, before, True
        ended = 0
        for ended, line in enumerate(splitter.feed(text), 1):
            mark.time, mark.count, mark.lines, mark.after_return = self._time, self._count, ended, before
            mark.held = True
            if ended > skip:
                yield line
        self._whole = not splitter.holds
        mark.held, mark.ends_in_return = splitter.holds, splitter.after_return

    def close(self) -> Iterator[Line]:
        """What stood after the last line end, if anything. Past it there is nothing."""
        for line in self._splitter.close():
            self._mark.time, self._mark.count, self._mark.lines = self._time, self._count, _ALL
            self._mark.held = False
            yield line


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


def _moment(time: bytes) -> datetime:
    """To the microsecond, rounded down."""
    whole, _, rest = time.decode("ascii").removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00") + timedelta(microseconds=int(rest.ljust(6, "0")[:6] or 0))
