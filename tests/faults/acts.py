"""What is killed half-way, and the checks that the old state or the new one exists, whole."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.result import PublishedResult
from ratchet.production.reconcile import reconcile
from ratchet.production.rollback import rollback
from ratchet.store.collecting import collect
from ratchet.store.file import FileStore
from ratchet.store.ledger import Change, Record, append, records, repair_head
from ratchet.store.publishing import Transaction, find_result, verify
from ratchet.store.sealed import seal
from tests.production.registered import MODEL, registered
from tests.production.registered import promote as record

FINGERPRINT = "f" * 64
PREFIX = paths.published("example", "train", FINGERPRINT)
ROWS = bytes(range(256)) * 100


def store_of(folder: Path) -> FileStore:
    """The store of a test's folder."""
    return FileStore(folder / "store")


def publish(folder: Path, attempt: str = "one") -> PublishedResult:
    """A stage's result with two outputs."""
    transaction = Transaction(store_of(folder), PREFIX, attempt)
    source = folder / f"rows-{attempt}"
    source.write_bytes(ROWS)
    transaction.add("rows", source, rows=100)
    transaction.add_bytes("description", b"{}")
    return transaction.commit(stage="train", fingerprint=FINGERPRINT, parts={}, content=digest(ROWS))


def check_published(folder: Path) -> bool:
    """Whether the result exists; it is whole if it does, and can be made if it does not."""
    store = store_of(folder)
    found = find_result(store, PREFIX)
    if found is not None:
        assert verify(store, found) == []
        assert set(found.result.outputs) == {"rows", "description"}
    again = publish(folder, "again")
    assert again.reused == (found is not None)
    assert verify(store, again) == []
    collect(store, PREFIX, older_than_s=-1)
    used = {again.key, *(artifact.key for artifact in again.result.outputs.values())}
    assert {entry.key for entry in store.list()} == used
    files = {path.name for path in store.root.rglob("*") if path.is_file()}
    assert files == {"manifest.json", "rows", "description"}
    return found is not None


def promote(folder: Path) -> Record:
    """The second record of a ledger."""
    return append(store_of(folder), _change("2"), after=1)


def check_promoted(folder: Path) -> bool:
    """Whether the second record exists; the first always does, and the ledger can go on."""
    return _check_recorded(folder, ["1"], ["1", "2"])


def _check_recorded(folder: Path, old: list[str], new: list[str]) -> bool:
    """Whether the new record exists. The head is repaired, a lost tail is seen after that, and the ledger can go on."""
    store = store_of(folder)
    before = records(store, "ranker")
    assert [record.version for record in before] in (old, new)
    repair_head(store, "ranker")
    if before:
        key = paths.ledger_record("ranker", len(before))
        data = store.read(key)
        store.delete(key)
        with pytest.raises(CorruptArtifact, match="is missing"):
            records(store, "ranker")
        store.create(key, data)
    append(store, _change("9"), after=len(before))
    assert [record.number for record in records(store, "ranker")] == list(range(1, len(before) + 2))
    return len(before) == len(new)


def begin_ledger(folder: Path) -> None:
    """A ledger with one record."""
    append(store_of(folder), _change("1"), after=0)


def begin_two(folder: Path) -> None:
    """A ledger with two records, of versions that the registry has."""
    store = registered(folder / "store")
    for number, name in enumerate("ab"):
        record(store, name, after=number)


def begin_old(folder: Path) -> None:
    """A ledger with one record, as releases of before wrote it: without a head and without a link."""
    record = Record(number=1, **_change("1").model_dump())
    store_of(folder).create(paths.ledger_record("ranker", 1), seal(record))


def first(folder: Path) -> Record:
    """The first record of a ledger."""
    return append(store_of(folder), _change("1"), after=0)


def take_back(folder: Path) -> Record:
    """A person's return to the first champion."""
    return rollback(store_of(folder), "ranker", by="ann", because="clicks fell")


def replace(folder: Path) -> None:
    """Swap a file for a longer one."""
    store = store_of(folder)
    entry = store.head("run/outcome.json")
    assert store.replace("run/outcome.json", ROWS, expected=entry.etag if entry else None)


def check_replaced(folder: Path) -> bool:
    """Whether the new bytes are stored; else the old ones are, whole, and can still be replaced."""
    store = store_of(folder)
    data = store.read("run/outcome.json")
    assert data in {b"old", ROWS}
    replace(folder)
    assert store.read("run/outcome.json") == ROWS
    return data == ROWS


def begin_replace(folder: Path) -> None:
    """The file as it was."""
    store_of(folder).create("run/outcome.json", b"old")


def begin_follow(folder: Path) -> None:
    """A ledger whose newest record the alias does not follow yet, nor its head."""
    store = registered(folder / "store")
    record(store, "a", after=0)
    assert reconcile(store, None, MODEL).agrees
    old = store.read(paths.ledger_head(MODEL))
    record(store, "b", after=1)
    entry = store.head(paths.ledger_head(MODEL))
    assert entry is not None
    assert store.replace(paths.ledger_head(MODEL), old, expected=entry.etag)


def follow(folder: Path) -> object:
    """Let the alias follow the ledger."""
    return reconcile(store_of(folder), None, MODEL)


def check_followed(folder: Path) -> bool:
    """Whether the alias names the new version; the next look sees to it in any case."""
    before = reconcile(store_of(folder), None, MODEL)
    assert before.agrees
    assert before.version == "2"
    assert reconcile(store_of(folder), None, MODEL).moved is None
    return before.moved is None


def nothing(folder: Path) -> None:
    """A store that is not there yet."""


ACTS: dict[str, Callable[[Path], object]] = {
    "publish": publish,
    "promote": promote,
    "begin": first,
    "adopt": promote,
    "rollback": take_back,
    "follow": follow,
    "replace": replace,
}
BEGIN: dict[str, Callable[[Path], None]] = {
    "publish": nothing,
    "promote": begin_ledger,
    "begin": nothing,
    "adopt": begin_old,
    "rollback": begin_two,
    "follow": begin_follow,
    "replace": begin_replace,
}
CHECK: dict[str, Callable[[Path], bool]] = {
    "publish": check_published,
    "promote": check_promoted,
    "begin": lambda folder: _check_recorded(folder, [], ["1"]),
    "adopt": check_promoted,
    "rollback": lambda folder: _check_recorded(folder, ["1", "2"], ["1", "2", "1"]),
    "replace": check_replaced,
    "follow": check_followed,
}


def _change(version: str) -> Change:
    return Change(
        model="ranker",
        action="promote",
        version=version,
        fingerprint=FINGERPRINT,
        model_digest=digest(version.encode()),
        manifests={},
        data_date=date(2026, 11, 20),
        window_start=date(2026, 10, 22),
        pipeline="example",
        run_id=f"run-{version}",
        reason="better",
        baseline=None,
        recorded=datetime(2026, 11, 21, 2, tzinfo=UTC),
    )
