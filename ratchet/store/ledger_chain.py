"""The files of a ledger: records that form a chain, and the head that names the newest.

A change here violates the promise of the project when a cut tail, a gap or an exchanged record reads like a whole
ledger.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.fingerprint import digest
from ratchet.store.base import Store
from ratchet.store.ledger_record import GENESIS, Head, Record
from ratchet.store.sealed import seal, unseal

_READERS = 8
"""How many records are read at once: each is a request where the store is a bucket."""


@dataclass(frozen=True, kw_only=True)
class Chain:
    """A whole ledger. digest: of the newest record's bytes. head: as stored; None where there is none."""

    store: Store
    place: str
    records: tuple[Record, ...]
    digest: str
    head: Head | None

    @property
    def number(self) -> int:
        """The number of the newest record; 0 if there is none."""
        return len(self.records)

    def key(self, number: int) -> str:
        """The key of a record."""
        return paths.record_below(self.place, number)

    def extended(self, record: Record, data: bytes) -> "Chain":
        """The chain with one more record."""
        return replace(self, records=(*self.records, record), digest=digest(data))

    def damage_error(self, number: int, what: str) -> CorruptArtifact:
        """The error about one record."""
        return _damage_error(self.store, self.key(number), what)


def read_chain(store: Store, model: str, place: str) -> Chain:
    """Read a ledger and check that it is whole. Raises CorruptArtifact, which names the file, if it is not."""
    head = _read_head(store, place)  # before the list: a record that is appended meanwhile is newer than this head
    beside = (paths.head_below(place), f"{paths.lost_below(place)}/")
    keys = [entry.key for entry in store.list(place) if not entry.key.startswith(beside)]
    for number, key in enumerate(keys, 1):
        if key != (due := paths.record_below(place, number)):
            raise _damage_error(store, due, "is missing")
    found = _read_all(store, model, place, len(keys))
    digests = [GENESIS, *(digest(data) for _, data in found)]
    history = tuple(record for record, _ in found)
    if head is None and any(record.previous for record in history) and store.head(paths.head_below(place)) is not None:
        return read_chain(store, model, place)  # the first record was written since the head was looked for
    _check_links(store, place, history, digests)
    _check_head(store, place, history, digests, head)
    return Chain(store=store, place=place, records=history, digest=digests[-1], head=head)


def read_record(store: Store, model: str, place: str, number: int) -> tuple[Record, bytes]:
    """One record and its bytes. Raises CorruptArtifact if it is missing, damaged, or another record."""
    key = paths.record_below(place, number)
    try:
        data = store.read(key)
    except FileNotFoundError:
        raise _damage_error(store, key, "is missing") from None
    record = unseal(data, Record, where=f"{store.uri}/{key}", remedy=_remedy(key))
    if (record.model, record.number) != (model, number):
        raise _damage_error(store, key, f"contains record {record.number} of {record.model}")
    return record, data


def move_head(store: Store, chain: Chain) -> bool:
    """Let the head name the newest record of a chain; whether it had to be moved. A newer head stays."""
    newest = Head(number=chain.number, sha256=chain.digest)
    key = paths.head_below(chain.place)
    if chain.head == newest:
        return False
    while True:
        entry = store.head(key)
        current = _read_head(store, chain.place) if entry else None
        if current is not None and current.number >= newest.number:
            return False
        if store.replace(key, seal(newest), expected=entry.etag if entry else None):
            return True


def _read_all(store: Store, model: str, place: str, count: int) -> list[tuple[Record, bytes]]:
    numbers = range(1, count + 1)
    if count <= 1:
        return [read_record(store, model, place, number) for number in numbers]
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(lambda number: read_record(store, model, place, number), numbers))


def _read_head(store: Store, place: str) -> Head | None:
    key = paths.head_below(place)
    try:
        data = store.read(key)
    except FileNotFoundError:
        return None
    return unseal(data, Head, where=f"{store.uri}/{key}", remedy=_remedy(key))


def _check_links(store: Store, place: str, history: Sequence[Record], digests: Sequence[str]) -> None:
    """Each record names the bytes of the one before; only the first ones, of releases of before, name nothing."""
    chained = False
    for record, before in zip(history, digests, strict=False):
        if record.previous != before and (chained or record.previous):
            if record.number == 1:
                raise _damage_error(store, paths.record_below(place, 1), "is not the first record of a ledger")
            due = paths.record_below(place, record.number - 1)
            raise _damage_error(store, due, f"is not the record that record {record.number} follows")
        chained = chained or bool(record.previous)


def _check_head(store: Store, place: str, history: Sequence[Record], digests: Sequence[str], head: Head | None) -> None:
    """The record that the head names is there. Newer ones may be there too: their links prove them."""
    if head is None:
        if any(record.previous for record in history):
            raise _damage_error(store, paths.head_below(place), "is missing")
        return
    if head.number > len(history):
        due = paths.record_below(place, len(history) + 1)
        raise _damage_error(store, due, f"is missing: the ledger ends with record {head.number}")
    if head.sha256 != digests[head.number]:
        raise _damage_error(store, paths.record_below(place, head.number), "is not the record that the head names")


def _damage_error(store: Store, key: str, what: str) -> CorruptArtifact:
    return CorruptArtifact(f"{store.uri}/{key} {what}", remedy=_remedy(key))


def _remedy(key: str) -> str:
    return f"restore {key} from a backup; until then Ratchet promotes nothing"
