"""Sums over days, read as a few documents: a window of a year is about ten blocks of days, and a night makes one more.

A block is 2^k days, the first of which has an ordinal that is a multiple of 2^k. What it holds is made of its two
halves, and that of a day of the day alone. A window is the fewest blocks that cover it, in order of date. So what comes
out depends on the days and on nothing that was kept: where a sum depends on its order, blocks are the order.

A block is found by the days in it that count, by their identities, and by the version of the sum. Another day, or one
that counts no more, is another block, of which the others are as good as before. It holds its digest: one that is
damaged or gone is made again.

A change here violates the promise of the project when the same days give other bits, whatever is stored.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from typing import Generic, TypeVar

from ratchet.contracts import paths, writing_rights
from ratchet.contracts.errors import CorruptArtifact, OtherRelease
from ratchet.contracts.fingerprint import digest, digest_of
from ratchet.contracts.reproduction import PART as REPRODUCTION
from ratchet.store.base import Store

SUMS, FITTED = KINDS = (writing_rights.SUM_PARTS["validate"], writing_rights.SUM_PARTS["features"])
"""The kinds of sums. They hold values of rows, so a purge deletes them."""
_THREADS = 8
_REBUILD = "rebuild"
Sum = TypeVar("Sum")
_Days = Sequence[tuple[int, date, str]]
"""Ordinals, days, identities; ascending."""


@dataclass(frozen=True, kw_only=True)
class Blocks(Generic[Sum]):
    """The blocks of one kind of sum.

    kind: one of KINDS. version: of the sum, and all that it depends on beside the days. leaf: of a day.
    merge: of parts in order of date. write, read: a sum as bytes; read raises ValueError for bytes in another form.
    parts: of the stage's fingerprint. A rebuild makes each block again; a reproduction too, and writes none. may_write:
    raises where the stage may publish nothing any more, such as after a purge. on_damaged: gets the key of a damaged
    block, before it is made again.
    """

    store: Store
    pipeline: str
    kind: str
    version: str
    leaf: Callable[[date], Sum]
    merge: Callable[[Sequence[Sum]], Sum]
    write: Callable[[Sum], bytes]
    read: Callable[[bytes], Sum]
    may_write: Callable[[], None]
    on_damaged: Callable[[str], None]
    parts: Mapping[str, str] = field(default_factory=dict)
    _covering: dict[str, Sum] = field(default_factory=dict)

    def over(self, days: Mapping[date, str]) -> list[Sum]:
        """The sums of the blocks that cover these days, in order of date. days: what each one is known by."""
        ordered = [(day.toordinal(), day, days[day]) for day in sorted(days)]
        parts = [part for first, size in cover(ordered) if (part := _within(ordered, first, size))]
        with ThreadPoolExecutor(_THREADS) as pool:
            return list(pool.map(self._once, parts))

    def _once(self, days: _Days) -> Sum:
        identity = self._identity(days)
        if identity not in self._covering:
            self._covering[identity] = self._of(days)
        return self._covering[identity]

    def _identity(self, days: _Days) -> str:
        return digest_of([self.version, [[at, of] for at, _, of in days]])

    def _of(self, days: _Days) -> Sum:
        """The sum of days that lie in one block, the smallest of which counts."""
        if len(days) == 1:
            return self.leaf(days[0][1])
        key, entry = paths.published(self.pipeline, self.kind, self._identity(days)), None
        of_another_release = False
        try:
            sha256, _, body = self.store.read(key).partition(b"\n")
            is_whole = digest(body).encode() == sha256
            if is_whole and not {_REBUILD, REPRODUCTION} & self.parts.keys():
                return self.read(body)
            if not is_whole:
                self.on_damaged(key)
            entry = self.store.head(key)
        except FileNotFoundError:
            pass
        except OtherRelease:
            of_another_release = True
        except (ValueError, CorruptArtifact):  # in the form of before
            entry = self.store.head(key)
        found = self.merge([self._of(half) for half in _halves(days)])
        if of_another_release or REPRODUCTION in self.parts:
            return found
        self.may_write()
        body = self.write(found)
        # Another run may be faster: what it writes is the same.
        self.store.replace(key, digest(body).encode() + b"\n" + body, expected=entry.etag if entry else None)
        return found


def cover(days: _Days) -> list[tuple[int, int]]:
    """The fewest blocks from the first day to the last one: the first ordinal and the number of days of each."""
    found: list[tuple[int, int]] = []
    if days:
        at, end = days[0][0], days[-1][0] + 1
        while at < end:
            size = min(at & -at, 1 << (end - at).bit_length() - 1)
            found.append((at, size))
            at += size
    return found


def _halves(days: _Days) -> tuple[_Days, _Days]:
    """The days of the smallest block with all of these, by its halves. There are two days or more."""
    size = 1 << (days[0][0] ^ days[-1][0]).bit_length() - 1
    middle = days[-1][0] // size * size
    return [day for day in days if day[0] < middle], [day for day in days if day[0] >= middle]


def _within(days: _Days, first: int, size: int) -> _Days:
    return [day for day in days if first <= day[0] < first + size]
