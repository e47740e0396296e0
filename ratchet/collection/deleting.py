"""Deletes what goes: of each whole its guard first, and only as it was seen.

A change here violates the promise of the project when a kill leaves a manifest, or another guard, whose files are gone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby

from ratchet.collection.findings import Wholes
from ratchet.contracts.errors import Unavailable
from ratchet.store.base import Entry, Store
from ratchet.store.lease import Hold

_THREADS = 8
_AT_ONCE = 200
"""Wholes between two looks at the lease."""


class UsedMeanwhile(Exception):
    """A guard has changed since it was seen: somebody has taken what it guards."""


def delete(store: Store, wholes: Sequence[Wholes], hold: Hold | None, gone: Callable[[Wholes], None]) -> None:
    """Delete wholes, one kind after the other. gone: gets what was deleted of each.

    Raises UsedMeanwhile at the end of the kind in which a guard had changed, and Unavailable without the lease.
    """
    for _, of_kind in groupby(wholes, key=lambda one: one.kind):
        for some in _batches(of_kind):
            if hold is not None and not hold.is_ours():
                raise Unavailable("another process removes rows or collects now", remedy="run the command again later")
            with ThreadPoolExecutor(_THREADS) as pool:
                done = list(pool.map(lambda one: _delete(store, one), some))
            for one in done:
                gone(one)
            if any(one.guard is None and was.guard is not None for one, was in zip(done, some, strict=True)):
                raise UsedMeanwhile


def _delete(store: Store, one: Wholes) -> Wholes:
    """What of it was deleted."""
    if one.guard is not None and not _delete_entry(store, one.guard):
        return one._replace(guard=None, others=())
    return one._replace(others=tuple(entry for entry in one.others if _delete_entry(store, entry)))


def _delete_entry(store: Store, seen: Entry) -> bool:
    """Delete a file that is as it was seen. A bucket's etag is of the bytes alone, so the time counts too."""
    return store.delete(seen.key, expected=seen.etag, written_ns=seen.modified_ns)


def _batches(wholes: Iterable[Wholes]) -> Iterator[list[Wholes]]:
    some: list[Wholes] = []
    for one in wholes:
        some.append(one)
        if len(some) == _AT_ONCE:
            yield some
            some = []
    if some:
        yield some
