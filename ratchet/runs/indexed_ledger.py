"""What a ledger says, known up to a record and read on from there.

A change here violates the promise of the project when a model is said to be in production that the ledger does not
name.
"""

import logging

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact, OtherRelease
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.run_index import IndexedLedger
from ratchet.store.base import Store
from ratchet.store.ledger import Record, champion_of
from ratchet.store.ledger_chain import read_chain, read_record

_log = logging.getLogger(__name__)


def ledger_of(store: Store, model: str, known: IndexedLedger | None) -> IndexedLedger:
    """What a ledger says now. Reads only the records that are newer than what is known, if that is still true.

    A ledger that this release cannot read says nothing, since what cannot be checked is not in production.
    """
    place = paths.ledger(model)
    beside = (paths.head_below(place), f"{paths.lost_below(place)}/")
    entries = [entry for entry in store.list(place) if not entry.key.startswith(beside)]
    before = known or IndexedLedger()
    is_known = before.number <= len(entries) and (not before.number or entries[before.number - 1].etag == before.etag)
    if is_known and before.number == len(entries):
        return before
    try:
        newer = _newer(store, model, before, len(entries)) if is_known and before.number else None
        if newer is None:
            chain = read_chain(store, model, place)
            before, newer = IndexedLedger(), (chain.records, chain.digest)
    except (CorruptArtifact, OtherRelease) as error:
        _log.warning("no version of %s is shown as in production, since its ledger cannot be read: %s", model, error)
        return IndexedLedger()
    history, sha256 = newer
    number = before.number + len(history)
    promoted = {record.model_digest for record in history if record.action == "promote"}
    moved = champion_of(history)
    return IndexedLedger(
        number=number,
        etag=entries[number - 1].etag if 0 < number <= len(entries) else "",
        sha256=sha256,
        promoted=tuple(sorted({*before.promoted, *promoted})),
        live=moved.model_digest if moved is not None else before.live,
    )


def _newer(store: Store, model: str, before: IndexedLedger, number: int) -> tuple[tuple[Record, ...], str] | None:
    """The records after those that are known, and the digest of the last; None where they do not follow them."""
    found, sha256 = [], before.sha256
    for each in range(before.number + 1, number + 1):
        record, data = read_record(store, model, paths.ledger(model), each)
        if record.previous != sha256:
            return None
        found.append(record)
        sha256 = digest(data)
    return tuple(found), sha256
