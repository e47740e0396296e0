"""A ledger whose tail is cut, damaged or exchanged: named, never another champion, and gone on with by a person only."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.fingerprint import digest
from ratchet.production.accept_loss import accept_loss
from ratchet.production.reconcile import reconcile
from ratchet.store.file import FileStore
from ratchet.store.ledger import append, champion, records
from tests.production.registered import MODEL, promote, registered
from tests.store.test_ledger import change


def _path(store: FileStore, name: str) -> Path:
    return store.root / paths.ledger(MODEL) / name


def cut(store: FileStore) -> None:
    _path(store, "00000003.json").unlink()


def cut_two(store: FileStore) -> None:
    cut(store)
    _path(store, "00000002.json").unlink()


def truncated(store: FileStore) -> None:
    path = _path(store, "00000003.json")
    path.write_bytes(path.read_bytes()[:-30])


def exchanged(store: FileStore) -> None:
    """Record 2 of another history, whole in itself."""
    other = FileStore(store.root.with_name("other"))
    other.prepare()
    promote(other, "a", after=0)
    append(other, change("3", 10, model=MODEL, model_digest=digest(b"c")), after=1)
    shutil.copyfile(_path(other, "00000002.json"), _path(store, "00000002.json"))


def newest_exchanged(store: FileStore) -> None:
    shutil.copyfile(_path(store, "00000002.json"), _path(store, "00000003.json"))


def headless(store: FileStore) -> None:
    _path(store, "head.json").unlink()


def head_damaged(store: FileStore) -> None:
    _path(store, "head.json").write_bytes(b"{}")


@pytest.mark.parametrize("harm", [cut, cut_two, truncated, exchanged, newest_exchanged, headless, head_damaged])
def test_a_harmed_ledger_is_named_and_names_no_other_champion(
    harm: Callable[[FileStore], None], tmp_path: Path
) -> None:
    store = registered(tmp_path / "store")
    for number, name in enumerate("abc"):
        promote(store, name, after=number)
    assert reconcile(store, None, MODEL).version == "3"
    harm(store)
    for read in (records, champion):
        with pytest.raises(CorruptArtifact, match=r"is missing|is damaged|is not the record|contains record"):
            read(store, MODEL)
    with pytest.raises(CorruptArtifact):
        promote(store, "a", after=2)
    found = reconcile(store, None, MODEL)
    assert found.finding is not None
    assert (found.finding.name, found.live) == ("ledger-damaged", None)
    assert "ratchet doctor ranker --accept-loss WHY" in found.finding.remedy
    accept_loss(store, None, MODEL, by="ann", because="no backup has it")
    whole = reconcile(store, None, MODEL)
    assert whole.agrees
    assert records(store, MODEL)[-1].action == "hold"
