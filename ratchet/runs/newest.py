"""The newest of many documents by what they say themselves, of which only a few are read.

The times of their files do not say it: those of a copy are the copy's, and S3 counts whole seconds. But no file is
older than what it says. So what says that it is newer than all files that are not read yet is the newest.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TypeVar

from ratchet.store.base import Entry, Store

_Found = TypeVar("_Found")
_READERS = 8
_CLOCKS_NS = 60 * 10**9
"""More than the whole second of S3, and what the clock of a store differs from those of its writers."""


def newest_first(
    entries: Iterable[Entry],
    read: Callable[[Entry], _Found | None],
    when: Callable[[_Found], datetime],
    known: Iterable[_Found] = (),
) -> Iterator[_Found]:
    """What the files say, the newest first; a file that `read` finds nothing in is left out.

    known: what is known of other files without reading them.
    """

    def moment(one: _Found) -> float:
        return when(one).timestamp()

    found = sorted(known, key=moment)
    unread = sorted(entries, key=lambda entry: entry.modified_ns)
    size = 1
    while found or unread:
        while unread and (not found or unread[-1].modified_ns + _CLOCKS_NS >= moment(found[-1]) * 1e9):
            batch = unread[-size:]
            del unread[-size:]
            size *= 2
            with ThreadPoolExecutor(_READERS) as pool:
                found = sorted([*found, *(one for one in pool.map(read, batch) if one is not None)], key=moment)
        if found:
            yield found.pop()


def write_mark(store: Store, key: str) -> None:
    """Write a mark that says nothing but its name, before or after what it is the mark of.

    One of a try before gets a new time, so that it is not older than what this try writes.
    """
    if not store.create(key, b""):
        there = store.head(key)
        store.replace(key, b"", expected=there.etag if there else None)
