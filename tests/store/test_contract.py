"""The promises of the Store protocol, checked on every kind of store."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet.store.base import Store
from ratchet.store.opening import open_store


@pytest.fixture
def store(store_uri: str) -> Store:
    return open_store(store_uri)


def keys(store: Store, prefix: str = "") -> list[str]:
    return [entry.key for entry in store.list(prefix)]


def test_a_created_file_can_be_read(store: Store) -> None:
    assert store.create("a/b.json", b"\x00one\n")
    assert store.read("a/b.json") == b"\x00one\n"


def test_the_clock_of_a_store_is_the_one_that_dates_its_files_and_asking_leaves_nothing(store: Store) -> None:
    before = store.now_ns()
    assert keys(store) == []
    assert store.create("a", b"1")
    entry = store.head("a")
    assert entry is not None
    second = 10**9  # S3 counts whole ones
    assert before // second * second <= entry.modified_ns <= store.now_ns() + second


def test_a_file_is_deleted_only_if_it_was_written_when_it_was_seen(store: Store) -> None:
    assert store.create("a", b"1")
    seen = store.head("a")
    assert seen is not None
    assert not store.delete("a", expected=seen.etag, written_ns=seen.modified_ns - 10**9)
    assert store.delete("a", expected=seen.etag, written_ns=seen.modified_ns)
    assert store.head("a") is None


def test_an_empty_file_is_a_file(store: Store) -> None:
    assert store.create("empty", b"")
    assert store.read("empty") == b""
    entry = store.head("empty")
    assert entry is not None
    assert entry.bytes == 0


def test_a_file_is_created_once(store: Store) -> None:
    assert store.create("a", b"first")
    assert not store.create("a", b"second")
    assert store.read("a") == b"first"


def test_of_many_creators_exactly_one_wins(store: Store) -> None:
    barrier = threading.Barrier(8)

    def create(number: int) -> bool:
        barrier.wait(60)
        return store.create("races/one", str(number).encode())

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(create, range(8)))
    assert won.count(True) == 1
    assert store.read("races/one") == str(won.index(True)).encode()


def test_replace_needs_the_current_etag(store: Store) -> None:
    assert store.replace("a", b"1", expected=None)
    assert not store.replace("a", b"2", expected=None)
    first = store.head("a")
    assert first is not None
    assert store.replace("a", b"3", expected=first.etag)
    assert not store.replace("a", b"4", expected=first.etag)
    assert store.read("a") == b"3"
    assert not store.replace("absent", b"5", expected=first.etag)
    assert store.head("absent") is None


def test_swap_is_replace_and_says_the_new_etag(store: Store) -> None:
    assert store.swap("a", b"1", expected="x") is None
    store.create("a", b"1")
    first = store.head("a")
    assert first is not None
    second = store.swap("a", b"2", expected=first.etag)
    assert second is not None
    assert store.swap("a", b"3", expected=first.etag) is None
    found = store.head("a")
    assert found is not None
    assert (found.etag, store.read("a")) == (second, b"2")
    assert store.swap("a", b"4", expected=second) is not None


def test_no_update_is_lost_when_many_replace(store: Store) -> None:
    store.create("counter", b"0")

    def count() -> None:
        for _ in range(5):
            while True:
                entry = store.head("counter")
                assert entry is not None
                if store.replace("counter", b"%d" % (int(store.read("counter")) + 1), expected=entry.etag):
                    break

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(count) for _ in range(4)]:
            done.result(60)
    assert store.read("counter") == b"20"


@pytest.mark.parametrize("size", [0, 1, 40 << 20], ids=["empty", "byte", "many parts"])
def test_files_go_up_and_come_down_unchanged(store: Store, tmp_path: Path, size: int) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    pattern = bytes(range(251))
    source.write_bytes((pattern * (size // len(pattern) + 1))[:size])
    store.upload(source, "big/file.bin")
    store.download("big/file.bin", target)
    assert target.read_bytes() == source.read_bytes()
    entry = store.head("big/file.bin")
    assert entry is not None
    assert entry.bytes == size


def test_an_upload_replaces_what_was_there(store: Store, tmp_path: Path) -> None:
    store.create("a", b"old")
    (tmp_path / "new").write_bytes(b"new")
    store.upload(tmp_path / "new", "a")
    assert store.read("a") == b"new"


def test_every_write_changes_the_etag(store: Store) -> None:
    store.create("a", b"x")
    first = store.head("a")
    assert first is not None
    assert store.replace("a", b"y", expected=first.etag)
    second = store.head("a")
    assert second is not None
    assert second.etag != first.etag
    assert second.modified_ns >= first.modified_ns > 1_500_000_000 * 10**9


def test_absent_files_are_file_not_found(store: Store, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing/here"):
        store.read("nothing/here")
    with pytest.raises(FileNotFoundError):
        store.download("nothing/here", tmp_path / "x")
    with pytest.raises(FileNotFoundError):
        store.upload(tmp_path / "no such file", "a")
    assert store.head("nothing/here") is None
    assert store.local("nothing/here") is None
    assert not store.delete("nothing/here")
    assert keys(store) == []


def test_a_folder_is_not_a_file(store: Store) -> None:
    store.create("folder/file", b"1")
    assert store.head("folder") is None
    assert store.local("folder") is None
    assert not store.delete("folder")
    assert store.head("folder/file/below") is None
    assert not store.delete("folder/file/below")
    for key in ("folder", "folder/file/below"):
        with pytest.raises(FileNotFoundError):
            store.read(key)


def test_lists_are_sorted_by_key_and_keep_to_their_folder(store: Store) -> None:
    everything = ["a", "b-1/x", "b/1", "b/c/2", "b/c0", "b0", "ä/ß", "date=2026-01-01/part 0.parquet"]
    for key in reversed(everything):
        store.create(key, key.encode())
    assert keys(store) == sorted(everything)
    assert keys(store, "b") == ["b/1", "b/c/2", "b/c0"]
    assert keys(store, "b/") == keys(store, "b")
    assert keys(store, "a") == []
    assert keys(store, "none") == []
    assert [entry.bytes for entry in store.list("ä")] == [5]
    assert all(store.head(entry.key) == entry for entry in store.list())


def test_a_deleted_file_is_gone_and_can_be_created_again(store: Store) -> None:
    store.create("a/b/c", b"1")
    assert store.delete("a/b/c")
    assert not store.delete("a/b/c")
    assert store.head("a/b/c") is None
    assert store.create("a/b/c", b"2")


def test_a_delete_with_an_old_etag_keeps_a_changed_file(store: Store) -> None:
    store.create("a", b"1")
    old = store.head("a")
    assert old is not None
    assert store.replace("a", b"2", expected=old.etag)
    assert not store.delete("a", expected=old.etag)
    new = store.head("a")
    assert new is not None
    assert store.delete("a", expected=new.etag)
    assert not store.delete("a", expected=new.etag)


def test_a_store_of_the_same_uri_is_the_same_store(store: Store) -> None:
    store.create("a", b"1")
    assert open_store(store.uri).read("a") == b"1"
    assert open_store(store.uri).uri == store.uri


def test_preparing_twice_is_fine(store: Store) -> None:
    store.prepare()
    store.create("a", b"1")
    store.prepare()
    store.adopt("")
    store.adopt("absent")
    assert store.sweep(older_than_s=0) == 0
    assert store.read("a") == b"1"


BAD_KEYS = [
    "",
    "/",
    "/etc/passwd",
    "..",
    "a/../b",
    "../b",
    "a/..",
    "./a",
    "a//b",
    "a/",
    "a\0b",
    "a\nb",
    "a\\b",
    "\ud800",
]
BAD_KEYS += ["a/.ratchet-0123456789abcdef.tmp", "x" * 256, "/".join(["abc"] * 300)]


@pytest.mark.parametrize("key", BAD_KEYS)
def test_keys_that_lead_elsewhere_are_refused_by_every_call(store: Store, tmp_path: Path, key: str) -> None:
    (tmp_path / "file").write_bytes(b"1")
    calls = [
        lambda: store.read(key),
        lambda: store.create(key, b""),
        lambda: store.replace(key, b"", expected="x"),
        lambda: store.upload(tmp_path / "file", key),
        lambda: store.download(key, tmp_path / "out"),
        lambda: store.head(key),
        lambda: store.delete(key),
        lambda: store.local(key),
        lambda: store.table(key),
        lambda: list(store.list(f"{key}/x")),
        lambda: store.sweep(f"{key}/x", older_than_s=0),
        lambda: store.adopt(f"{key}/x"),
    ]
    for call in calls:
        with pytest.raises(ConfigurationError, match="store key"):
            call()
