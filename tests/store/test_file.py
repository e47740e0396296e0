"""The folder store: durable, whole files, owners, links, the system's errors."""

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ratchet.contracts.errors import ConfigurationError, NoAnswer, Unavailable
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.result import Artifact
from ratchet.store import disk
from ratchet.store.artifacts import fetch
from ratchet.store.disk import fault_in_place
from ratchet.store.file import FileStore

ROOT = os.geteuid() == 0
THREADS, ROUNDS = 8, 30
as_root = pytest.mark.skipif(not ROOT, reason="only root can hand files to others")


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "store")


@pytest.fixture
def outsider() -> Iterator[None]:
    """This thread's process as a user without special rights."""
    if not ROOT:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def owner(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_uid, found.st_gid


def test_opening_and_reading_write_nothing(store: FileStore) -> None:
    assert list(store.list()) == []
    assert store.head("a") is None
    assert store.sweep(older_than_s=0) == 0
    assert not store.delete("a/b")
    assert not store.root.exists()


def test_a_file_can_be_mapped_in_place(store: FileStore) -> None:
    store.create("a/b", b"1")
    assert store.local("a/b") == store.root / "a" / "b"
    assert store.table("t/x") == (str(store.root / "t/x"), {})


def test_files_and_folders_can_be_read_by_others_and_written_by_their_owner(store: FileStore) -> None:
    store.create("a/b", b"1")
    assert (store.root / "a/b").stat().st_mode & 0o777 == 0o644
    assert (store.root / "a").stat().st_mode & 0o777 == 0o755


def test_empty_folders_do_not_pile_up(store: FileStore) -> None:
    store.create("a/b/c", b"1")
    store.create("a/d", b"1")
    store.delete("a/b/c")
    assert not (store.root / "a/b").exists()
    store.delete("a/d")
    assert list(store.root.iterdir()) == []


@as_root
def test_a_new_root_belongs_to_the_user_of_the_stages(store: FileStore) -> None:
    store.prepare()
    assert store.owner() == disk.STAGE_OWNER
    store.create("deep/er/file", b"1")
    assert {owner(path) for path in store.root.rglob("*")} == {disk.STAGE_OWNER}


@as_root
def test_an_empty_root_gets_the_owner_and_one_in_use_does_not(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").touch()
    for name in ("empty", "used"):
        FileStore(tmp_path / name).prepare()
    assert owner(tmp_path / "empty") == disk.STAGE_OWNER
    assert owner(tmp_path / "used") == (0, 0)


@as_root
def test_what_is_written_first_gives_the_store_to_the_user_of_stages(tmp_path: Path) -> None:
    """An alert, a mark of the watch or a copied file may come before the first plan prepares the store."""
    written, uploaded = FileStore(tmp_path / "written"), FileStore(tmp_path / "uploaded")
    assert written.create("outbox/watch.json", b"{}")
    (tmp_path / "file").write_bytes(b"x")
    uploaded.root.mkdir()  # as a volume is
    uploaded.upload(tmp_path / "file", "runs/p/r/x")
    for store in (written, uploaded):
        assert {owner(path) for path in (store.root, *store.root.rglob("*"))} == {disk.STAGE_OWNER}


@as_root
def test_a_file_that_root_writes_gets_the_owner_of_its_folder(store: FileStore, tmp_path: Path) -> None:
    store.root.mkdir()
    os.chown(store.root, 1234, 5678)
    (tmp_path / "file").write_bytes(b"1")
    store.create("a/created", b"1")
    store.upload(tmp_path / "file", "b/uploaded")
    entry = store.head("a/created")
    assert entry is not None
    assert store.replace("a/created", b"2", expected=entry.etag)
    assert {owner(path) for path in store.root.rglob("*")} == {(1234, 5678)}


@as_root
def test_files_of_others_are_adopted_but_not_the_targets_of_links(store: FileStore, tmp_path: Path) -> None:
    store.prepare()
    log = store.root / "tables" / "t" / "_delta_log"
    log.mkdir(parents=True)
    (log / "0.json").write_text("{}")
    (tmp_path / "foreign").write_text("mine")
    (log / "link").symlink_to(tmp_path / "foreign")
    store.adopt("tables/t")
    below = [store.root / "tables", *(store.root / "tables").rglob("*")]
    assert {owner(path) for path in below} == {disk.STAGE_OWNER}
    assert owner(tmp_path / "foreign") == (0, 0)


@as_root
def test_folders_have_their_owner_at_once(store: FileStore) -> None:
    store.prepare()
    everybody = threading.Barrier(THREADS)

    def write(number: int) -> None:
        everybody.wait()
        store.create(f"{'/'.join('abcdefgh')}/{number}", b"1")

    for _ in range(ROUNDS):
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(write, range(THREADS)))
        assert {owner(path) for path in store.root.rglob("*")} == {disk.STAGE_OWNER}
        for number in range(THREADS):
            store.delete(f"{'/'.join('abcdefgh')}/{number}")
        assert list(store.root.iterdir()) == []


@as_root
def test_an_unfinished_folder_is_not_a_file_and_is_deleted(store: FileStore) -> None:
    store.prepare()
    store.create("a/b", b"1")
    (store.root / "a" / f".ratchet-{'0' * 16}.tmp").mkdir()
    assert [entry.key for entry in store.list()] == ["a/b"]
    assert store.sweep(older_than_s=3600) == 0
    assert store.sweep(older_than_s=0) == 1
    assert [path.name for path in (store.root / "a").iterdir()] == ["b"]


def test_links_out_of_the_root_are_refused(store: FileStore, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("no")
    (tmp_path / "elsewhere").mkdir()
    store.create("a", b"1")
    (store.root / "file").symlink_to(tmp_path / "secret")
    (store.root / "folder").symlink_to(tmp_path / "elsewhere")
    for call in (
        lambda: store.read("file"),
        lambda: store.create("folder/new", b"x"),
        lambda: store.upload(tmp_path / "secret", "folder/new"),
        lambda: store.local("file"),
        lambda: store.delete("file"),
        lambda: store.table("folder/t"),
        lambda: list(store.list("folder")),
        lambda: list(store.list()),
    ):
        with pytest.raises(ConfigurationError, match="symbolic link"):
            call()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_links_inside_the_root_and_to_the_root_are_followed(store: FileStore, tmp_path: Path) -> None:
    store.create("real/file", b"1")
    (store.root / "real" / "link").symlink_to("file")
    (tmp_path / "also").symlink_to(store.root)
    assert FileStore(tmp_path / "also").read("real/link") == b"1"
    assert FileStore(tmp_path / "also").uri == store.uri
    assert [entry.key for entry in store.list()] == ["real/file", "real/link"]


def test_files_that_a_crash_left_are_hidden_and_deleted_when_they_are_old(store: FileStore) -> None:
    store.create("a/file", b"1")
    debris = store.root / "a" / ".ratchet-0123456789abcdef.tmp"
    debris.write_bytes(b"half")
    assert [entry.key for entry in store.list()] == ["a/file"]
    assert store.sweep(older_than_s=3600) == 0
    os.utime(debris, (1, 1))
    assert store.sweep("b", older_than_s=3600) == 0
    assert store.sweep("a", older_than_s=3600) == 1
    assert not debris.exists()
    assert store.read("a/file") == b"1"


def test_a_failed_write_leaves_nothing(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_handle: int) -> None:
        raise OSError(5, "Input/output error")

    store.create("a/kept", b"1")
    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(Unavailable, match="a/new: Input/output error"):
        store.create("a/new", b"2")
    assert [path.name for path in (store.root / "a").iterdir()] == ["kept"]


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ESTALE, NoAnswer), (errno.EIO, Unavailable), (errno.EROFS, Unavailable)]
)
def test_a_folder_on_another_host_that_does_not_answer_is_told_from_a_broken_disk(
    store: FileStore, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Unavailable]
) -> None:
    """The first is waited for wherever a stage meets it, the other uses its tries."""
    store.create("a", b"1")

    def away(*_: object, **__: object) -> bytes:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "read_bytes", away)
    monkeypatch.setattr(os, "open", away)
    with pytest.raises(Unavailable) as raised:
        store.read("a")
    assert type(raised.value) is kind


def test_a_folder_on_another_host_is_waited_for_also_where_a_file_is_read_in_place(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create("a", b"1")
    artifact = Artifact(key="a", sha256=digest(b"1"), bytes=1)

    def away(*_: object, **__: object) -> Any:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", away)
        with pytest.raises(NoAnswer, match="/a: Stale file handle"):
            fetch(store, artifact, store.root)
    monkeypatch.setattr(Path, "stat", away)
    with pytest.raises(NoAnswer, match="/a: Stale file handle"):
        store.local("a")
    with pytest.raises(NoAnswer, match="Stale file handle"):
        store.create("b", b"1")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.ESTALE, "gone", "/srv/store/a"), NoAnswer),
        (OSError(errno.EIO, "broken", b"/srv/store/a"), Unavailable),
        (OSError(errno.ECONNREFUSED, "refused", "/srv/store/a"), NoAnswer),
        (OSError(errno.ESTALE, "gone", "/srv/stored/a"), None),
        (OSError(errno.EIO, "broken", "/tmp/a"), None),
        (OSError(errno.ESTALE, "read"), NoAnswer),
        (OSError(errno.EIO, "[Errno 5] Error reading bytes from file"), Unavailable),
        (OSError("Stale file handle (os error 116): /srv/store/a"), NoAnswer),
        (OSError(errno.ECONNREFUSED, "refused"), None),
        (OSError(errno.ENOENT, "absent", "/srv/store/a"), None),
        (OSError("no number"), None),
        (ValueError("(os error 116)"), None),
    ],
)
def test_an_error_of_a_library_is_one_of_the_disk_by_its_number_and_its_file(
    error: Exception, kind: type[Unavailable] | None
) -> None:
    found = fault_in_place(error, [Path("/srv/store")])
    assert (type(found) if found is not None else None) is kind
    assert fault_in_place(error, []) is None


def test_missing_rights_are_reported_with_the_user(tmp_path: Path, outsider: None) -> None:
    root = tmp_path / "store" if ROOT else Path("/srv/store")
    with pytest.raises(ConfigurationError, match=r"as user \d+.*own the store's folder"):
        FileStore(root).prepare()


def test_a_file_in_a_folders_place_is_named(store: FileStore) -> None:
    store.create("a", b"1")
    with pytest.raises(ConfigurationError, match=r"Not a directory.*at this path of the store away"):
        store.create("a/b", b"2")
    store.create("c/d", b"1")
    entry = store.head("a")
    assert entry is not None
    with pytest.raises(ConfigurationError, match="c: "):
        store.upload(store.root / "a", "c")


def test_a_lock_that_is_never_released_is_reported(
    store: FileStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store.create("a/file", b"1")
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl, os, sys; handle = os.open(sys.argv[1], os.O_RDONLY); fcntl.flock(handle, fcntl.LOCK_EX)\n"
            "print('held', flush=True); sys.stdin.read()",
            str(store.root / "a"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        monkeypatch.setattr(disk, "LOCK_TIMEOUT_S", 0.05)
        entry = store.head("a/file")
        assert entry is not None
        with pytest.raises(NoAnswer, match="another process has held its lock"):
            store.replace("a/file", b"2", expected=entry.etag)
        holder.kill()
    assert store.replace("a/file", b"2", expected=entry.etag)


def test_folders_that_come_and_go_do_not_disturb_writers(store: FileStore) -> None:
    program = (
        "import sys; from pathlib import Path; from ratchet.store.file import FileStore\n"
        "store = FileStore(Path(sys.argv[1]))\n"
        "for number in range(60):\n"
        "    key = f'shared/deep/{sys.argv[2]}-{number}'\n"
        "    assert store.create(key, b'1') and store.delete(key)\n"
    )
    workers = [subprocess.Popen([sys.executable, "-c", program, str(store.root), name]) for name in ("a", "b", "c")]
    assert [worker.wait(500) for worker in workers] == [0, 0, 0]
    assert list(store.list()) == []
