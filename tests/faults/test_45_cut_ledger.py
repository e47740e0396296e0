"""A ledger whose tail is cut, damaged or exchanged: named, never another champion, and gone on with by a person only.

Before a promotion, and at each moment of one. Other stages only read the ledger, once.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact, RatchetError
from ratchet.contracts.fingerprint import digest
from ratchet.production.accept_loss import accept_loss
from ratchet.production.reconcile import reconcile
from ratchet.store.base import Entry
from ratchet.store.file import FileStore
from ratchet.store.ledger import append, champion, records
from tests.production.registered import MODEL, copied, promote, registered
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


class HarmedAt(FileStore):
    """A store whose ledger is harmed just before the look at it, or the write, of a number; 0 for never.

    calls: how many there were.
    """

    def __init__(self, root: Path, harm: Callable[[FileStore], None], at: int) -> None:
        super().__init__(root)
        self.calls, self._harm, self._at = 0, harm, at

    def list(self, prefix: str = "") -> Iterator[Entry]:
        self._call(prefix)
        return super().list(prefix)

    def create(self, key: str, data: bytes) -> bool:
        self._call(key)
        return super().create(key, data)

    def replace(self, key: str, data: bytes, *, expected: str | None) -> bool:
        self._call(key)
        return super().replace(key, data, expected=expected)

    def _call(self, key: str) -> None:
        if key.startswith(paths.ledger(MODEL)):
            self.calls += 1
            if self.calls == self._at:
                self._harm(self)


def cut_before_last(store: FileStore) -> None:
    _path(store, "00000002.json").unlink()


def set_back(store: FileStore) -> None:
    """As a backup of the day before has it: the ledger is whole, and shorter."""
    first = store.root.with_name("first")
    for name in ("00000002.json", "00000003.json"):
        _path(store, name).unlink(missing_ok=True)
    shutil.copyfile(_path(FileStore(first), "head.json"), _path(store, "head.json"))


def register(store: FileStore) -> None:
    """What the stage does with the ledger: it lets the alias follow, looks, records, and lets the alias follow."""
    reconcile(store, None, MODEL).refuse()
    promote(store, "c", after=len(records(store, MODEL)))
    reconcile(store, None, MODEL).refuse()


@pytest.mark.parametrize("harm", [cut_before_last, set_back])
def test_45_a_ledger_that_is_harmed_at_any_moment_of_a_promotion_is_reported(
    harm: Callable[[FileStore], None], tmp_path: Path
) -> None:
    made = registered(tmp_path / "store")
    promote(made, "a", after=0)
    copied(made, tmp_path / "first")
    promote(made, "b", after=1)
    assert reconcile(made, None, MODEL).version == "2"
    whole = HarmedAt(copied(made, tmp_path / "whole").root, harm, 0)
    register(whole)
    moments = whole.calls
    assert reconcile(whole, None, MODEL).version == "3"
    for moment in range(1, moments + 1):
        store = HarmedAt(copied(made, tmp_path / f"{moment}").root, harm, moment)
        with suppress(RatchetError):
            register(store)
        assert store.calls >= moment
        found = reconcile(store, None, MODEL)
        assert found.shows("ledger-damaged", "ledger-behind"), moment
        with pytest.raises(CorruptArtifact):
            register(store)
