"""What is killed half-way, and the checks that the old state or the new one exists, whole."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

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
from tasks.train.checkpoint import Checkpoint
from tests.faults import miniature_training
from tests.production.registered import MODEL, registered
from tests.production.registered import promote as record

FINGERPRINT = "f" * 64
PREFIX = paths.published("example", "train", FINGERPRINT)
STOPPED = 10
"""Steps after which a training receives a notice to stop."""
SECOND_STOP = {2 * STOPPED - 4, 2 * STOPPED}
"""Where its next attempt may have saved: at the end of its first epoch, and at the second notice."""
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
        key = paths.record_below(paths.ledger("ranker"), len(before))
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
    store_of(folder).create(paths.record_below(paths.ledger("ranker"), 1), seal(record))


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
    old = store.read(paths.head_below(paths.ledger(MODEL)))
    record(store, "b", after=1)
    entry = store.head(paths.head_below(paths.ledger(MODEL)))
    assert entry is not None
    assert store.replace(paths.head_below(paths.ledger(MODEL)), old, expected=entry.etag)


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


def checkpoint(folder: Path, step: int = 2) -> int:
    """Save a state; the number of saves that failed."""
    checkpointer = miniature_training.checkpointer(folder)
    checkpointer.save(_state(step))
    checkpointer.close()
    return checkpointer.failures


def begin_checkpoint(folder: Path) -> None:
    """A state that is saved."""
    assert checkpoint(folder, 1) == 0


def checkpoint_fails(folder: Path) -> None:
    """Save a state, and find that it failed; what called it goes on."""
    assert checkpoint(folder) == 1


def check_saved(folder: Path) -> bool:
    """Whether the new state is saved; else the old one is, whole, and the new one can still be."""
    before = _saved(folder)
    assert checkpoint(folder) == 0
    assert _saved(folder) == 2
    return before == 2


def _saved(folder: Path) -> int:
    """The step of the newest checkpoint, which is whole."""
    found = miniature_training.checkpointer(folder).newest()
    assert found is not None
    assert found.state["step"] == found.step
    assert torch.equal(found.state["weights"], _state(found.step).state["weights"])
    return found.step


def _state(step: int) -> Checkpoint:
    return Checkpoint(step=step, state={"step": step, "weights": torch.full((100,), float(step))})


def begin_stop(folder: Path) -> None:
    """A training that was stopped, and saved its state."""
    assert miniature_training.stop(folder, STOPPED) == "saved"


def stop(folder: Path) -> None:
    """Resume it, and stop it again in the middle of an epoch."""
    assert miniature_training.stop(folder, STOPPED) == "saved"


def check_stopped(folder: Path) -> bool:
    """Whether the second stop was saved; the training ends with its bits in any case."""
    found, digest = miniature_training.whole(folder)
    assert digest == _undisturbed()
    assert found.resumed_from in {STOPPED, *SECOND_STOP}
    return found.resumed_from in SECOND_STOP


@cache
def _undisturbed() -> str:
    with TemporaryDirectory() as folder:
        return miniature_training.whole(Path(folder))[1]


ACTS: dict[str, Callable[[Path], object]] = {
    "publish": publish,
    "promote": promote,
    "begin": first,
    "adopt": promote,
    "rollback": take_back,
    "follow": follow,
    "replace": replace,
    "checkpoint": checkpoint,
    "checkpoint-fails": checkpoint_fails,
    "stop": stop,
}
OF_TRAININGS = {"checkpoint", "checkpoint-fails", "stop"}
BEGIN: dict[str, Callable[[Path], None]] = {
    "publish": nothing,
    "promote": begin_ledger,
    "begin": nothing,
    "adopt": begin_old,
    "rollback": begin_two,
    "follow": begin_follow,
    "replace": begin_replace,
    "checkpoint": begin_checkpoint,
    "checkpoint-fails": begin_checkpoint,
    "stop": begin_stop,
}
CHECK: dict[str, Callable[[Path], bool]] = {
    "publish": check_published,
    "promote": check_promoted,
    "begin": lambda folder: _check_recorded(folder, [], ["1"]),
    "adopt": check_promoted,
    "rollback": lambda folder: _check_recorded(folder, ["1", "2"], ["1", "2", "1"]),
    "replace": check_replaced,
    "follow": check_followed,
    "checkpoint": check_saved,
    "stop": check_stopped,
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
