"""The history of champions: an append-only ledger for each model. One conditional create writes one record.

The records are a chain: each has the digest of the one before, and a head document names the newest, so that a record
that was exchanged and a tail that was cut are noticed. The head is moved after the record is written. A crash between
the two leaves a head that lags; the records prove the rest, and the next writer moves it.

Every function takes `place`, the prefix of the ledger's keys; without it, it is the ledger of production.

A change here violates the promise of the project when: a record can change or vanish unnoticed; numbers can have a gap;
two writers can both believe that they changed production from the same state; or a record changes who was in office on
a date that already had a night.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import date

from ratchet.contracts import paths
from ratchet.contracts.errors import PublishConflict, Unavailable
from ratchet.store.base import Store
from ratchet.store.ledger_chain import move_head, read_chain, read_record
from ratchet.store.ledger_record import Ban, Change, Record
from ratchet.store.sealed import seal

__all__ = [
    "Ban", "Change", "LedgerConflict", "Record", "append", "champion", "champion_of", "records", "repair_head",
    "tenures",
]  # fmt: skip


class LedgerConflict(PublishConflict):
    """Another writer has recorded a change first: `winner`. Decide again, with the new champion."""

    def __init__(self, winner: Record) -> None:
        self.winner = winner
        super().__init__(
            f"ledger of {winner.model}: run {winner.run_id} was first: it recorded {winner.action} of version "
            f"{winner.version} as number {winner.number}",
            remedy="run again: evaluate compares with the new champion",
        )


def append(store: Store, change: Change, *, after: int, place: str | None = None) -> Record:
    """Record a change as number `after` + 1, durably. after: the newest number that the writer knows, 0 if none.

    Where the change names no date as its own `after`, it is in office for the dates that had no night yet. Raises
    LedgerConflict if the ledger has a newer record, CorruptArtifact if it is damaged or ends before `after`.
    """
    place = place or paths.ledger(change.model)
    chain = read_chain(store, change.model, place)
    if after > chain.number:
        raise chain.damage_error(after, "is missing")
    if after < chain.number:
        raise LedgerConflict(chain.records[after])
    move_head(store, chain)
    given = change.model_dump(exclude={"number", "previous", "after"})
    tenure = _tenure(store, change, chain.records)
    record = Record(number=after + 1, previous=chain.digest, after=tenure, **given)
    data = seal(record)
    if not store.create(chain.key(record.number), data):
        raise LedgerConflict(read_record(store, change.model, place, record.number)[0])
    with suppress(Unavailable):  # the change is made: an error would let a person make it a second time
        move_head(store, chain.extended(record, data))
    return record


def records(store: Store, model: str, *, place: str | None = None) -> tuple[Record, ...]:
    """The whole ledger, oldest first.

    Raises CorruptArtifact if a record is missing, damaged or exchanged, the last one too, or if the head is missing.
    """
    return read_chain(store, model, place or paths.ledger(model)).records


def champion(store: Store, model: str, *, before: date | None = None, place: str | None = None) -> Record | None:
    """The newest record that moved production; with `before`, the one that was in office on that data date.

    In office on a date is who had been recorded when the first run of that date began, so that the answer about a date
    that had a night stays the same. Raises CorruptArtifact as `records`: Ratchet never guesses the champion.
    """
    return champion_of(records(store, model, place=place), before=before)


def champion_of(history: Sequence[Record], *, before: date | None = None) -> Record | None:
    """The same of records that were read."""
    for record, after in reversed(list(zip(history, tenures(history), strict=True))):
        if record.moves_production and (before is None or after < before):
            return record
    return None


def tenures(history: Sequence[Record]) -> tuple[date, ...]:
    """For each record the date after which it counts. It never decreases; records of before had no such date."""
    found: list[date] = []
    for record in history:
        own = record.after or record.data_date
        found.append(max(own, found[-1]) if found else own)
    return tuple(found)


def repair_head(store: Store, model: str, *, place: str | None = None) -> bool:
    """Move a head that lags, and make the first one of a ledger of before; whether one lagged."""
    chain = read_chain(store, model, place or paths.ledger(model))
    return chain.number > 0 and move_head(store, chain) and chain.head is not None


def _tenure(store: Store, change: Change, history: Sequence[Record]) -> date:
    """The date after which a new record counts: the newest that had a night, or that its model has data of."""
    known = [*tenures(history)[-1:], change.after or change.data_date]
    if change.after is None:
        today = change.recorded.date()
        for pipeline in {change.pipeline, *(record.pipeline for record in history)}:
            marks = store.list(paths.nights(pipeline))
            known += (day for mark in marks if (day := paths.night_date(mark.key)) <= today)
    return max(known)
