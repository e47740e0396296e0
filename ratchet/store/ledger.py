"""The history of champions: an append-only ledger for each model. One conditional create writes one record.

A change here violates the promise of the project when: a record can change or vanish; numbers can have a gap; or two
writers can both believe that they changed production from the same state.
"""

from datetime import date, datetime
from typing import Literal

from pydantic import Field

from ratchet.contracts import paths
from ratchet.contracts.day_record import DayRecord
from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact, PublishConflict
from ratchet.contracts.gate import Gate
from ratchet.contracts.result import Sha256
from ratchet.store.base import Store
from ratchet.store.sealed import seal, unseal


class Change(Document):
    """A change to record: from now on, `version` is the champion."""

    model: str
    action: Literal["promote", "rollback"]
    version: str = Field(description="The version in the registry.")
    fingerprint: Sha256 = Field(description="The fingerprint of the training.")
    model_digest: Sha256 = Field(description="The identity of the model, see TrainedModel.digest.")
    manifests: dict[str, str] = Field(description="Keys of the manifests of the run that trained it, by stage.")
    data_date: date = Field(description="The newest day of the model's data.")
    window_start: date = Field(description="The oldest day of the model's data.")
    pipeline: str
    run_id: str
    reason: str
    baseline: int | None = Field(description="The number of the record of the baseline in evaluate.")
    let_in: tuple[DayRecord, ...] = Field(
        (), description="The days of its data that their own run had refused and a person let in, with who and why."
    )
    recorded: datetime
    gate: Gate | None = Field(
        None, description="The gate that it passed; None in records of before, and in a rollback."
    )
    overrides: dict[str, str] = Field(default_factory=dict, description="The keys that the run changed, dotted.")
    started_by: str = Field("", description="Who started the run; empty for a schedule.")
    refit_of: Sha256 | None = Field(
        None, description="The digest of the model that was measured, if `model_digest` is a refit of it on more days."
    )

    @property
    def measured(self) -> str:
        """The digest of the model that the verdict is about."""
        return self.refit_of or self.model_digest


class Record(Change):
    """A change in the ledger; numbers start at 1 and have no gap."""

    number: int = Field(ge=1)


class LedgerConflict(PublishConflict):
    """Another writer has recorded a change first: `winner`. Decide again, with the new champion."""

    def __init__(self, winner: Record) -> None:
        self.winner = winner
        super().__init__(
            f"ledger of {winner.model}: run {winner.run_id} was first: it recorded {winner.action} of version "
            f"{winner.version} as number {winner.number}",
            remedy="run again: evaluate compares with the new champion",
        )


def append(store: Store, change: Change, *, after: int) -> Record:
    """Record a change as number `after` + 1, durably. after: the newest number that the writer knows, 0 if none.

    Raises LedgerConflict if the ledger has a newer record, CorruptArtifact if record `after` is missing or damaged.
    """
    number = after + 1
    if after:
        _read(store, change.model, after)
    record = Record(number=number, **change.model_dump(exclude={"number"}))
    if not store.create(paths.ledger_record(change.model, number), seal(record)):
        raise LedgerConflict(_read(store, change.model, number))
    return record


def records(store: Store, model: str) -> tuple[Record, ...]:
    """The whole ledger, oldest first. Raises CorruptArtifact if a record is missing or damaged, the last one too."""
    return tuple(_read(store, model, number) for number in range(1, _newest(store, model) + 1))


def champion(store: Store, model: str, *, before: date | None = None) -> Record | None:
    """The newest record; with `before`, the newest one whose model was trained only on data of earlier days.

    Raises CorruptArtifact if that record or a newer one is missing or damaged: Ratchet never guesses the champion.
    """
    for number in range(_newest(store, model), 0, -1):
        record = _read(store, model, number)
        if before is None or record.data_date < before:
            return record
    return None


def _newest(store: Store, model: str) -> int:
    """The number of the newest record; 0 if there is none."""
    keys = [entry.key for entry in store.list(paths.ledger(model))]
    expected = [paths.ledger_record(model, number) for number in range(1, len(keys) + 1)]
    for key, due in zip(keys, expected, strict=True):
        if key != due:
            raise _damage_error(store, due, "is missing")
    return len(keys)


def _read(store: Store, model: str, number: int) -> Record:
    key = paths.ledger_record(model, number)
    try:
        data = store.read(key)
    except FileNotFoundError:
        raise _damage_error(store, key, "is missing") from None
    record = unseal(data, Record, where=f"{store.uri}/{key}", remedy=_remedy(key))
    if (record.model, record.number) != (model, number):
        raise _damage_error(store, key, f"contains record {record.number} of {record.model}")
    return record


def _damage_error(store: Store, key: str, what: str) -> CorruptArtifact:
    return CorruptArtifact(f"{store.uri}/{key} {what}", remedy=_remedy(key))


def _remedy(key: str) -> str:
    return f"restore {key} from a backup, or from the registry's aliases and tags; until then Ratchet promotes nothing"
