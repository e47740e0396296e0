"""The homes of a registry do the same: MLflow's file, its client, a server's REST API, and memory."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, NoAnswer, Unavailable
from ratchet.contracts.fingerprint import digest
from ratchet.store.base import Store
from ratchet.store.file import FileStore
from ratchet.store.opening import open_store
from ratchet.tracking.client_registry import ClientRegistry
from ratchet.tracking.file_registry import FileRegistry
from ratchet.tracking.memory_registry import MemoryRegistry
from ratchet.tracking.mlflow import track
from ratchet.tracking.registry import Registry
from ratchet.tracking.rest import RestClient
from ratchet.tracking.rest_registry import RestRegistry
from ratchet.tracking.use_registry import use_registry
from tests.production.registered import MODEL, NAMES, database, register, registered, tagged

_T = TypeVar("_T")
Use = Callable[[Callable[[Registry], _T]], _T]


@pytest.fixture(params=["file", "bucket", "client", "server", "memory"])
def use(request: pytest.FixtureRequest, tmp_path: Path) -> Use[object]:
    """Does work with a registry that has versions 1, 2 and 3, and no alias."""
    if request.param == "memory":
        memory = MemoryRegistry(f"mem://{tmp_path}")
        for name in NAMES:
            memory.add(MODEL, tagged(name))
        return lambda work: work(memory)
    if request.param == "server":
        server = request.getfixturevalue("mlflow_server")
        store: Store = open_store(f"mem://{tmp_path}")
        track(store, server, tmp_path, _register_once)
        return lambda work: use_registry(store, server, tmp_path, work)
    if request.param == "bucket":
        store = open_store(request.getfixturevalue("s3_uri"))
        store.create(paths.tracking_database(), database())
    else:
        store = registered(tmp_path / "store")
    if request.param == "client":
        return lambda work: track(store, None, tmp_path, lambda tracker: work(ClientRegistry(tracker)))
    return lambda work: use_registry(store, None, tmp_path, work)


def _register_once(tracker: object) -> None:
    client = tracker.client  # type: ignore[attr-defined] # a Tracker
    if client.search_registered_models(f"name = '{MODEL}'"):
        client.delete_registered_model(MODEL)
    register(tracker)  # type: ignore[arg-type] # a Tracker


def test_every_home_finds_versions_by_digest_and_moves_the_alias_with_the_record_s_number(use: Use[object]) -> None:
    def work(registry: Registry) -> None:
        assert registry.champion(MODEL) is None
        assert registry.version(MODEL, "9") is None
        assert registry.find(MODEL, digest(b"unknown")) == ()
        assert registry.champion("nobody") is None
        (second,) = registry.find(MODEL, digest(b"b"))
        assert (second.number, second.digest, second.record, second.scoring) == ("2", digest(b"b"), 0, "")
        registry.point(MODEL, second, 7)
        (third,) = registry.find(MODEL, digest(b"c"))
        registry.point(MODEL, third, 8)

    use(work)
    found = use(lambda registry: registry.champion(MODEL))
    assert (found.number, found.record) == ("3", 8)  # type: ignore[attr-defined] # a Version
    assert use(lambda registry: registry.version(MODEL, "2").record) == 7  # type: ignore[union-attr] # it is there


def test_what_the_file_s_writer_writes_the_client_reads(tmp_path: Path) -> None:
    store = registered(tmp_path / "store")
    use_registry(
        store, None, tmp_path, lambda registry: registry.point(MODEL, registry.find(MODEL, digest(b"b"))[0], 3)
    )
    client = track(store, None, tmp_path, lambda tracker: ClientRegistry(tracker).champion(MODEL))
    assert client is not None
    assert (client.number, client.record) == ("2", 3)


def test_a_deleted_version_is_not_found(tmp_path: Path) -> None:
    store = registered(tmp_path / "store")
    track(store, None, tmp_path, lambda tracker: tracker.client.delete_model_version(MODEL, "2"))
    assert use_registry(store, None, tmp_path, lambda registry: registry.find(MODEL, digest(b"b"))) == ()


def test_a_file_with_other_tables_is_left_to_the_client(tmp_path: Path) -> None:
    store = registered(tmp_path / "store")
    with sqlite3.connect(store.root / paths.tracking_database()) as known:
        known.execute("alter table registered_model_aliases rename column alias to nickname")
    known.close()
    with pytest.raises(Unavailable, match="the registry cannot be asked"):
        use_registry(store, None, tmp_path, lambda registry: registry.champion(MODEL))


def test_a_store_without_mlflow_data_has_an_empty_registry_and_none_is_made(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    store.prepare()
    assert use_registry(store, None, tmp_path, lambda registry: registry.champion(MODEL)) is None
    assert store.head(paths.tracking_database()) is None


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    store = registered(tmp_path / "store")
    (store.root / paths.tracking_database()).write_bytes(b"no database, whatever its name says" * 100)
    with pytest.raises(Unavailable, match="cannot be used"):
        use_registry(store, None, tmp_path, lambda registry: isinstance(registry, FileRegistry))


def test_a_store_that_has_moved_and_cannot_be_written_is_named_in_one_line(tmp_path: Path) -> None:
    registered(tmp_path / "before")
    (tmp_path / "before").rename(tmp_path / "store")
    store = FileStore(tmp_path / "store")
    database = store.root / paths.tracking_database()
    blocked = database.with_name(f"{database.name}-journal")
    blocked.symlink_to("/nowhere/journal")  # as a folder that this process may not write into
    with pytest.raises(ConfigurationError, match=r"its addresses are of another place.*to do: let this process write"):
        use_registry(store, None, tmp_path, lambda registry: registry)
    blocked.unlink()
    with closing(sqlite3.connect(database)) as other, other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(NoAnswer, match="is locked by another process; to do: end what holds it"):
            use_registry(store, None, tmp_path, lambda registry: registry)
    assert use_registry(store, None, tmp_path, lambda registry: isinstance(registry, FileRegistry))


def test_a_server_s_login_comes_from_the_address_the_environment_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("USERNAME", "PASSWORD", "TOKEN"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    asked = RestClient("http://me:p%40ss@127.0.0.1:9/mlflow/")
    assert (asked.address, asked._session.auth) == ("http://127.0.0.1:9/mlflow", ("me", "p@ss"))
    assert RestClient("http://127.0.0.1:9")._session.auth is None
    given = tmp_path / "login"
    given.write_text("[mlflow]\nmlflow_tracking_username = ann\nmlflow_tracking_password = 50%\n")
    monkeypatch.setenv("RATCHET_MLFLOW_CREDENTIALS", str(given))
    assert RestClient("http://127.0.0.1:9")._session.auth == ("ann", "50%")
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "bob")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "secret")
    assert RestClient("http://127.0.0.1:9")._session.auth == ("bob", "secret")


def test_a_server_that_refuses_the_login_is_named_and_its_password_is_not(httpd: Callable[[int, bytes], str]) -> None:
    with pytest.raises(ConfigurationError, match=r"refuses the login \(401\)") as raised:
        RestRegistry(httpd(401, b"{}").replace("//", "//me:s3cret@")).champion(MODEL)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(("status", "body"), [(503, b"{}"), (200, b"<html>"), (404, b"not MLflow")])
def test_an_answer_that_is_not_mlflow_s_is_an_outage(
    httpd: Callable[[int, bytes], str], status: int, body: bytes
) -> None:
    with pytest.raises(Unavailable, match="answers"):
        RestRegistry(httpd(status, body)).champion(MODEL)


def test_every_home_lists_the_versions_that_a_record_has_put_into_production(use: Use[object]) -> None:
    def work(registry: Registry) -> None:
        first, second = (registry.find(MODEL, digest(name.encode()))[0] for name in NAMES[:2])
        registry.point(MODEL, first, 7)
        registry.point(MODEL, second, 8)
        assert [(version.number, version.record) for version in registry.recorded(MODEL)] == [("1", 7), ("2", 8)]
        registry.mark(MODEL, second, 0)
        assert [(version.number, version.record) for version in registry.recorded(MODEL)] == [("1", 7)]
        named = registry.champion(MODEL)
        assert named is not None
        assert named.number == second.number
        assert registry.recorded("nobody") == ()

    use(work)
