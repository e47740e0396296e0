"""Names, keys and models that try to lead out of the store are refused, wherever they come from.

Archives that try to: tests/contracts/test_bundle.py.
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.result import Artifact
from ratchet.store.artifacts import fetch
from ratchet.store.file import FileStore
from ratchet.store.ledger import champion
from ratchet.store.opening import open_store
from ratchet.store.publishing import Transaction

HOSTILE = [
    "..",
    "../../etc/passwd",
    "/etc/passwd",
    "a/../../b",
    "a/./b",
    "a//b",
    "~/x",
    "a\0b",
    "a\nb",
    "..\\..\\x",
    "file:///etc/passwd",
    ".hidden",
    "",
    " ",
    "x" * 300,
    "..%2f..%2fetc",
    "\uff0e\uff0e/x",
    "date=2026-01-01/../../x",
]
names = st.one_of(st.text(max_size=30), st.lists(st.sampled_from(["..", ".", "/", "a", "\\", "\0", "~"])).map("".join))


@pytest.mark.parametrize("name", HOSTILE)
def test_no_hostile_name_becomes_part_of_a_path(name: str, tmp_path: Path) -> None:
    store = FileStore(tmp_path / "store")
    transaction = Transaction(store, paths.published("p", "train", "f" * 64), "one")
    for use in (
        lambda: paths.segment(name),
        lambda: paths.published(name, "train", "f" * 64),
        lambda: paths.run("p", name),
        lambda: Transaction(store, paths.published("p", "train", "f" * 64), name),
        lambda: transaction.add_bytes(name, b"x"),
        lambda: champion(store, name),
    ):
        with pytest.raises(ConfigurationError):
            use()
    assert not (tmp_path / "store").exists()


@given(names)
def test_a_name_that_is_accepted_is_one_step_and_stays_below(name: str) -> None:
    try:
        made = paths.segment(name)
    except ConfigurationError:
        return
    assert made == name
    assert Path("/srv/of/store", made).resolve() == Path("/srv/of/store") / made
    assert "/" not in made


@given(names)
def test_a_key_that_is_accepted_stays_below_the_root(name: str) -> None:
    store = FileStore(Path("/nonexistent/store"))
    try:
        uri, _ = store.table(name)
    except ConfigurationError:
        return
    assert Path(uri).resolve().is_relative_to("/nonexistent/store")
    assert Path(uri).resolve() != Path("/nonexistent/store")


def test_an_artifact_cannot_name_a_file_outside_of_the_store(tmp_path: Path, store_uri: str) -> None:
    (tmp_path / "secret").write_text("no")
    for key in ("../secret", str(tmp_path / "secret"), "a/../../secret"):
        with pytest.raises(ConfigurationError, match="store key"):
            fetch(open_store(store_uri), Artifact(key=key, sha256="0" * 64, bytes=2), tmp_path)


def test_a_stage_that_plants_a_link_gains_nothing(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "store")
    store.create("published/p/real", b"1")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("no")
    (store.root / "published" / "q").symlink_to(tmp_path / "outside")
    (store.root / "published" / "p" / "leak").symlink_to(tmp_path / "outside" / "secret")
    for use in (
        lambda: store.read("published/q/secret"),
        lambda: store.read("published/p/leak"),
        lambda: store.create("published/q/new", b"x"),
        lambda: store.delete("published/q/secret"),
        lambda: store.upload(tmp_path / "outside" / "secret", "published/q/new"),
        lambda: fetch(store, Artifact(key="published/p/leak", sha256="0" * 64, bytes=2), tmp_path),
    ):
        with pytest.raises(ConfigurationError, match="symbolic link"):
            use()
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["secret"]
    assert (tmp_path / "outside" / "secret").read_text() == "no"
