"""Cuts a ledger that has lost records to those that are whole, when a person has decided to go on without the rest.

A change here violates the promise of the project when it deletes the only copy of a record.
"""

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.fingerprint import digest
from ratchet.store.base import Store
from ratchet.store.ledger_chain import read_record
from ratchet.store.ledger_record import GENESIS, Head
from ratchet.store.sealed import seal


def cut_to_whole(store: Store, model: str, *, place: str | None = None) -> int:
    """Let the head name the newest record up to which all are whole; its number, 0 if none is.

    Files that do not belong to the chain are kept at `paths.lost_below`.
    """
    place = place or paths.ledger(model)
    number, newest = _whole(store, model, place)
    chain = {paths.record_below(place, one) for one in range(1, number + 1)} | {paths.head_below(place)}
    for entry in list(store.list(place)):
        if entry.key not in chain and not entry.key.startswith(paths.lost_below(place)):
            data = store.read(entry.key)
            store.create(f"{paths.lost_below(place)}/{paths.short(digest(data))}-{paths.last(entry.key)}", data)
            store.delete(entry.key, expected=entry.etag)
    old = store.head(paths.head_below(place))
    head = seal(Head(number=number, sha256=newest))
    store.replace(paths.head_below(place), head, expected=old.etag if old else None)
    return number


def _whole(store: Store, model: str, place: str) -> tuple[int, str]:
    """The number of the last record that follows the one before it, and the digest of its bytes."""
    number, newest, chained = 0, GENESIS, False
    while True:
        try:
            record, data = read_record(store, model, place, number + 1)
        except CorruptArtifact:
            return number, newest
        if record.previous != newest and (chained or record.previous):
            return number, newest
        number, newest, chained = number + 1, digest(data), bool(record.previous)
