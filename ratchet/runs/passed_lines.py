"""The lines of a job, passed on through the store: by the follower of its host, to the log of its task elsewhere.

These are for people who look at the task meanwhile; at the job's end its log is stored, of a long one the first and the
last part. What nobody reads, or what is faster than the store, is counted.
"""

import json
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from threading import Lock

from ratchet.contracts import left_paths
from ratchet.contracts.errors import RatchetError
from ratchet.runners.log.position import Position, PositionFile
from ratchet.runs.events import Event
from ratchet.store.base import Entry, Store

_MOST_PARTS = 20
"""Parts of a job that may wait for who reads them: while the triggerer is away, nobody does."""
_MOST_LINES, _MOST_BYTES = 12_000, 4 << 20
"""Lines that are not yet in a part, and bytes of their text. Each line takes some 300 bytes more."""
_A_PART, _A_PART_BYTES = 4000, 512 << 10
"""Lines, and bytes, after which a part is written at once."""


class PassedLines:
    """Lines that wait to be passed on. place: of the job, in `left_paths`.

    A line that a follower has heard and not passed on when it dies is heard by the next one: until then the position in
    the log stays where it was.
    """

    def __init__(self, store: Store, place: str, number: int = 0) -> None:
        """number: of the first part, after those of a follower before."""
        self._store, self._place = store, place
        self._lines: deque[_Waiting] = deque()
        self._bytes, self._dropped, self._number = 0, 0, number
        self._unread, self._is_open = 0, True
        """Parts that nobody has read yet; whether the store has taken the last one."""
        self._changing, self._passing = Lock(), Lock()

    def hear(self, event: Event) -> None:
        """Take a line, which has no secrets. A part that is full is written at once. What is too much is counted."""
        line = json.dumps(asdict(event), default=str).encode()
        if self._is_open and (self._bytes > _A_PART_BYTES or len(self._lines) >= _A_PART):
            self._pass_on()
        with self._changing:
            if self._bytes + len(line) > _MOST_BYTES or len(self._lines) >= _MOST_LINES:
                self._dropped += 1
                return
            self._lines.append(_Waiting(line))
            self._bytes += len(line)

    def positions(self, handle: str) -> PositionFile:
        """What keeps how far the log of a job was passed on."""
        return _PassedPosition(handle, self)

    def reached(self, handle: str, position: bytes) -> None:
        """Note the position after the last line, to be kept once that is passed on."""
        with self._changing:
            if self._lines:
                self._lines[-1].after = (handle, position)
                return
        _keep(handle, position)

    def look(self, unread: int) -> None:
        """Write all lines in parts, as far as somebody reads them. unread: how many parts nobody has read yet.

        Lines that the store does not take now wait for the next call.
        """
        self._unread = unread
        while self._pass_on():
            pass

    def _pass_on(self) -> bool:
        """Write a part, if there are lines; whether it was written."""
        with self._passing:
            self._is_open = False
            if self._unread >= _MOST_PARTS:
                return False
            with self._changing:
                taken, dropped = list(islice(self._lines, _A_PART)), self._dropped
            if not taken:
                self._is_open = True
                return False
            written = [waiting.line for waiting in taken]
            if dropped and len(taken) < _A_PART:
                said = f"{dropped:,} lines before this one are not shown: they were too many at once"
                written.append(json.dumps(asdict(Event(name="attempt", level="info", message=said))).encode())
            try:
                while not self._store.create(left_paths.lines(self._place, self._number), b"\n".join(written)):
                    self._number += 1
            except RatchetError:
                return False
            self._number += 1
            self._unread += 1
            self._is_open = True
            with self._changing:
                for _ in taken:
                    self._bytes -= len(self._lines.popleft().line)
                if len(written) > len(taken):
                    self._dropped -= dropped
            after = next((each.after for each in reversed(taken) if each.after is not None), None)
            if after is not None and self._is_left():
                _keep(*after)
            return True

    def _is_left(self) -> bool:
        """Whether the task has not taken the job back. Else it may not have this part, and reads its lines again."""
        with suppress(RatchetError):
            return self._store.head(left_paths.job(self._place)) is not None
        return False


@dataclass(slots=True)
class _Waiting:
    """A line, and the handle of its job with the position in its log after it."""

    line: bytes
    after: tuple[str, bytes] | None = None


class _PassedPosition(PositionFile):
    """A position that is kept once the lines before it are passed on."""

    def __init__(self, handle: str, lines: PassedLines) -> None:
        super().__init__(handle)
        self._handle, self._lines = handle, lines

    def write(self, position: Position) -> None:
        self._lines.reached(self._handle, position.pack())


def _keep(handle: str, position: bytes) -> None:
    """If it cannot be kept, as on a broken disk, the next follower passes lines on twice; no job waits for that."""
    found = Position.unpack(position)
    with suppress(OSError, RatchetError):
        if found is not None:
            with PositionFile(handle) as kept:
                kept.write(found)


def read_lines(store: Store, listed: Iterable[Entry], taken: set[Entry] | None = None) -> Iterator[Event]:
    """The events of the parts among these files, in their order. A part is deleted once all of it was taken.

    taken: parts that an earlier look has taken and could not delete; kept here. One that was deleted all the same, with
    an answer that was lost, may be another one by now: a follower that begins again takes its number.
    """
    parts = sorted(entry for entry in listed if left_paths.is_lines(entry.key))
    taken = set() if taken is None else taken
    taken &= {*parts}
    for entry in parts:
        if entry not in taken:
            try:
                data = store.read(entry.key)
            except FileNotFoundError:
                continue
            yield from map(_event, data.splitlines())
            taken.add(entry)
        store.delete(entry.key)
        taken.discard(entry)


def _event(line: bytes) -> Event:
    """An event, whatever another release wrote."""
    try:
        said = json.loads(line)
        kept = {name: said[name] for name in ("name", "level", "message", "time", "fields") if name in said}
        return Event(**{"name": "text", "level": "info", **kept})
    except (ValueError, TypeError):
        return Event(name="text", level="info", message=line.decode(errors="replace"))
