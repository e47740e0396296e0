"""The records of purges and expiries, and what they say of the rows that a run or a model names.

A change here violates the promise of the project when a removal that has begun is forgotten, or when a file that was
purged is not known as such.
"""

from collections.abc import Iterable
from datetime import date

from ratchet.contracts import paths
from ratchet.contracts.errors import Unavailable
from ratchet.contracts.removal import Removal
from ratchet.contracts.snapshot import SnapshotDay
from ratchet.store.base import Store
from ratchet.store.lease import Hold
from ratchet.store.sealed import replace_sealed, seal, unseal

_TRIES = 20
_REMEDY = "restore it from a backup; until then no stage of the pipeline runs"
Successors = dict[str, tuple[SnapshotDay, Removal]]
"""By the digest of a file that was purged: the day without these rows, and the newest purge of it."""


def removals(store: Store, pipeline: str) -> list[Removal]:
    """All of them, oldest first. Raises CorruptArtifact for a damaged record."""
    return [_read(store, entry.key) for entry in store.list(paths.removals(pipeline))]


def begin(store: Store, pipeline: str, removal: Removal) -> Removal:
    """Record that a removal begins, with the next number. From now on, ingest applies it, and no stage starts."""
    for _ in range(_TRIES):
        number = 1 + max((one.number for one in removals(store, pipeline)), default=0)
        numbered = removal.model_copy(update={"number": number})
        if store.create(paths.record_below(paths.removals(pipeline), number), seal(numbered)):
            return numbered
    raise Unavailable(f"{store.uri}/{paths.removals(pipeline)}: other processes keep writing records")


def keep(store: Store, pipeline: str, removal: Removal, hold: Hold) -> Removal:
    """Record how far a removal is. hold: the lease of removals; Unavailable if another process has taken it over."""
    if not hold.is_ours():
        raise Unavailable(
            f"another process has taken over the removal of rows of {pipeline}, as this one gave no sign for long",
            remedy="run the same command again once that one has ended",
        )
    key = paths.record_below(paths.removals(pipeline), removal.number)
    entry = store.head(key)
    if entry is None or not replace_sealed(store, key, removal, expected=entry.etag):
        raise Unavailable(f"{store.uri}/{key}: another process writes it", remedy="run the same command again")
    return removal


def successors(found: Iterable[Removal]) -> Successors:
    """What became of each file with purged rows, through all purges. An expired file may be read again, and is none."""
    known: Successors = {}
    for removal in found:
        for one in removal.days:
            if one.after is not None:
                for sha256, (after, _) in known.items():
                    if after.file.sha256 == one.before:
                        known[sha256] = one.after, removal
                known[one.before] = one.after, removal
    return known


def earlier(found: Iterable[Removal], files: Iterable[str]) -> dict[str, str]:
    """Of these files, and of all that a purge has replaced and that came to one of them: the digest of that one.

    Manifests and records of versions name a day as it was first, and a table as it is now.
    """
    before: dict[str, list[str]] = {}
    for removal in found:
        for one in removal.days:
            if one.after is not None:
                before.setdefault(one.after.file.sha256, []).append(one.before)
    known = {sha256: sha256 for sha256 in files}
    left = [*known]
    while left:
        sha256 = left.pop()
        for older in before.get(sha256, ()):
            if older not in known:
                known[older] = known[sha256]
                left.append(older)
    return known


def in_its_place(day: SnapshotDay, known: Successors) -> SnapshotDay:
    """The day as it is kept: itself, or without its purged rows."""
    return known[day.file.sha256][0] if day.file.sha256 in known else day


def expired(found: Iterable[Removal]) -> dict[date, Removal]:
    """The days that expired, each with the newest expiry."""
    return {one.day: removal for removal in found for one in removal.days if removal.kind == "expire"}


def _read(store: Store, key: str) -> Removal:
    return unseal(store.read(key), Removal, where=f"{store.uri}/{key}", remedy=_REMEDY)
