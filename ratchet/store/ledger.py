"""Who was champion when: an append-only ledger for each model, one record by one conditional create.

A change here violates the promise of the project when: a record can change or vanish; numbers can have a gap; or two
writers can both believe that they moved production from the same state.
"""

from datetime import date, datetime
from typing import Literal

from pydantic import Field

from ratchet.contracts import paths
from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact, PublishConflict
from ratchet.contracts.result import Sha256
from ratchet.store.base import Store
from ratchet.store.sealed import seal, unseal


class Change(Document):
    """A change to record: from now on, `version` is the champion."""

    model: str
    action: Literal["promote", "rollback"]
    version: str = Field(description="The registry's.")
    fingerprint: Sha256 = Field(description="Of the training.")
    model_digest: Sha256 = Field(description="The model's identity, see TrainedModel.digest.")
    manifests: dict[str, str] = Field(description="Keys of the manifests of the run that made the model, by stage.")
    data_date: date = Field(description="The newest day that the model was made of.")
    window_start: date = Field(description="The oldest day that the model was made of.")
    pipeline: str
    run_id: str
    reason: str
    baseline: int | None = Field(description="Number of the record whose model this one was measured against.")
    recorded: datetime


class Record(Change):
    """A change in the ledger; numbers start at 1 and have no gap."""

    number: int = Field(ge=1)


class LedgerMoved(PublishConflict):
    """Another writer has recorded a change first: `winner`. Decide again with it in view."""

    def __init__(self, winner: Record) -> None:
        self.winner = winner
        super().__init__(
            f"ledger of {winner.model}: run {winner.run_id} was first: it recorded {winner.action} of version "
            f"{winner.version} as number {winner.number}",
            remedy="run register again: it measures against the new champion",
        )


def append(store: Store, change: Change, *, after: int) -> Record:
    """Record a change as number `after` + 1, durably; `after` is the newest number that the writer knows, 0 if none.

    Raises LedgerMoved if the ledger has a newer record, CorruptArtifact if record `after` is missing or damaged.
    """
    number = after + 1
    if after:
        _read(store, change.model, after)
    record = Record(number=number, **change.model_dump(exclude={"number"}))
    if not store.create(paths.ledger_record(change.model, number), seal(record)):
        raise LedgerMoved(_read(store, change.model, number))
    return record


def records(store: Store, model: str) -> tuple[Record, ...]:
    """The whole ledger, oldest first. Raises CorruptArtifact if a record is missing or damaged, the last one too."""
    return tuple(_read(store, model, number) for number in range(1, _newest(store, model) + 1))


def champion(store: Store, model: str, *, before: date | None = None) -> Record | None:
    """The newest record; with `before`, the newest one whose model was made of data of earlier days alone.

    Raises CorruptArtifact if a record on the way there is missing or damaged: who is champion is never guessed.
    """
    for number in range(_newest(store, model), 0, -1):
        record = _read(store, model, number)
        if before is None or record.data_date < before:
            return record
    return None


def _newest(store: Store, model: str) -> int:
    """How many records there are."""
    keys = [entry.key for entry in store.list(paths.ledger(model))]
    expected = [paths.ledger_record(model, number) for number in range(1, len(keys) + 1)]
    for key, due in zip(keys, expected, strict=True):
        if key != due:
            raise _damaged(store, due, "is missing")
    return len(keys)


def _read(store: Store, model: str, number: int) -> Record:
    key = paths.ledger_record(model, number)
    try:
        data = store.read(key)
    except FileNotFoundError:
        raise _damaged(store, key, "is missing") from None
    record = unseal(data, Record, where=f"{store.uri}/{key}", remedy=_remedy(key))
    if (record.model, record.number) != (model, number):
        raise _damaged(store, key, f"is the record {record.number} of {record.model}")
    return record


def _damaged(store: Store, key: str, what: str) -> CorruptArtifact:
    return CorruptArtifact(f"{store.uri}/{key} {what}", remedy=_remedy(key))


def _remedy(key: str) -> str:
    return f"restore {key} from a backup, or by the registry's aliases and tags; nothing is promoted until then"
