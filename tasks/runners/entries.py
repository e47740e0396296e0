"""The engine's log of a container: entries of either stream, each with its time, that can be read on from any point.

Reading on is needed because engines drop the end of a log that is followed more slowly than it is written (seen in
20.10: the follower gives up when the container ends), and a failure's cause stands at the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from tasks.runners.lines import Stream

_STREAMS: dict[int, Stream] = {1: "stdout", 2: "stderr"}
_HEADER = 8


class Readable(Protocol):
    """A response's body as it comes; fewer bytes than asked for only at its end."""

    def read(self, amount: int) -> bytes:
        """At most `amount` bytes."""
        ...


@dataclass(slots=True)
class Position:
    """How far a log has been read: the time of the newest entry, and how many entries have that very time."""

    time: str = ""
    count: int = 0

    @property
    def since(self) -> dict[str, str]:
        """As a parameter of the engine's API, which takes seconds and nanoseconds and includes that moment."""
        if not self.time:
            return {}
        whole, _, rest = self.time.removesuffix("Z").partition(".")
        return {"since": f"{int(datetime.fromisoformat(whole + '+00:00').timestamp())}.{rest or 0}"}

    def entries(self, raw: Readable) -> Iterator[tuple[Stream, bytes]]:
        """The entries of a body that are past this position, which moves along."""
        known, repeated = self.time, self.count
        for stream, entry in _frames(raw):
            stamp, _, text = entry.partition(b" ")
            time = stamp.decode("ascii", errors="replace")
            if time == known and repeated:
                repeated -= 1
                continue
            self.count = self.count + 1 if time == self.time else 1
            self.time = time
            yield stream, text


def _frames(raw: Readable) -> Iterator[tuple[Stream, bytes]]:
    """A frame is a stream's number, three zeros, a length in four bytes, and as many bytes: a time and up to 16 KiB."""
    while len(header := raw.read(_HEADER)) == _HEADER:
        length = int.from_bytes(header[4:], "big")
        content = raw.read(length)
        if len(content) < length:
            return
        yield _STREAMS[header[0]], content
