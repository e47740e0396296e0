"""The store in a folder.

A file appears under its name in one step, after all of its bytes are on the disk: the store writes it under a private
name in the same folder, syncs it, and then links it (create) or renames it (replace, upload); it syncs the folder last.
"""

import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path

from typing_extensions import override

from ratchet.store.base import TEMPORARY, Entry, Store, check_key, check_prefix
from ratchet.store.disk import (
    STAGE_OWNER,
    link_error,
    lock_folder,
    make_folders,
    open_folder,
    root_errors,
    set_owner,
    store_errors,
    sync_folder,
    walk,
)

_TRIES = 100  # to write to a folder that a concurrent delete of its last file may remove


class FileStore(Store):
    """Files below a folder. A file that root writes gets the owner of its folder, because stages write there too."""

    def __init__(self, root: Path) -> None:
        self._root = Path(os.path.realpath(root))

    @property
    def uri(self) -> str:
        """`file:///folder`, links resolved."""
        return self._root.as_uri()

    @property
    def root(self) -> Path:
        """The folder."""
        return self._root

    def prepare(self) -> None:
        """Create the root; as root, give a new or empty one to the user that stage containers run as."""
        with store_errors(self._root, writing=True), root_errors(self._root):
            make_folders(self._root)
            if os.geteuid() == 0 and not any(self._root.iterdir()):
                os.chown(self._root, *STAGE_OWNER)

    def _have_root(self) -> None:
        """Whatever writes first, be it an alert or a mark, prepares the root: stages have to write there too."""
        with store_errors(self._root):
            is_there = self._root.exists()
        if not is_there or (os.geteuid() == 0 and self.owner()[0] == 0):
            self.prepare()

    def owner(self) -> tuple[int, int]:
        """User and group that own the root. Raises FileNotFoundError if the root does not exist."""
        with store_errors(self._root):
            found = self._root.stat()
        return found.st_uid, found.st_gid

    @override
    def read(self, key: str) -> bytes:
        path = self._path(key)
        with store_errors(path):
            return path.read_bytes()

    @override
    def create(self, key: str, data: bytes) -> bool:
        path = self._path(key)
        self._have_root()
        with store_errors(path, writing=True), _temporary_file(path, lambda file: _write(file, data)) as temporary:
            try:
                os.link(temporary, path)
            except FileExistsError:
                created = False
            else:
                created = True
            # Also if another writer was first: the caller reads that file now, so it has to survive a crash.
            sync_folder(path.parent)
            return created

    @override
    def replace(self, key: str, data: bytes, *, expected: str | None) -> bool:
        return self.create(key, data) if expected is None else self.swap(key, data, expected=expected) is not None

    @override
    def swap(self, key: str, data: bytes, *, expected: str) -> str | None:
        path = self._path(key)
        with (
            store_errors(path, writing=True),
            _temporary_file(path, lambda file: _write(file, data)) as new,
            lock_folder(path.parent) as folder,
        ):
            found = _entry(key, path)
            if found is None or found.etag != expected:
                return None
            written = _entry(key, new)
            new.replace(path)
            os.fsync(folder)
            return written.etag if written else None

    @override
    def upload(self, path: Path, key: str) -> None:
        target = self._path(key)
        path.stat()
        self._have_root()
        with (
            store_errors(target, writing=True),
            _temporary_file(target, lambda file: shutil.copyfile(path, file)) as new,
            open_folder(target.parent) as folder,
        ):
            new.replace(target)
            os.fsync(folder)

    @override
    def download(self, key: str, path: Path) -> None:
        source = self._path(key)
        with store_errors(source):
            source.stat()
        with store_errors(path, writing=True):
            shutil.copyfile(source, path)

    @override
    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Does not follow links to folders. Raises ConfigurationError for a link to a file outside the store."""
        folder = check_prefix(prefix)
        top = self._path(folder[:-1]) if folder else self._root
        with store_errors(top):
            names = sorted(folder + name for name in walk(top) if not TEMPORARY.fullmatch(name.rpartition("/")[2]))
        for key in names:
            path = self._root / key  # no folder on the way is a link, but the file may be one
            with store_errors(path):
                entry = _entry(key, self._path(key) if path.is_symlink() else path)
            if entry is not None:
                yield entry

    @override
    def head(self, key: str) -> Entry | None:
        path = self._path(key)
        with store_errors(path):
            return _entry(key, path)

    @override
    def delete(self, key: str, *, expected: str | None = None, written_ns: int | None = None) -> bool:
        """Deletes folders that become empty too."""
        path = self._path(key)
        with store_errors(path):
            try:
                with lock_folder(path.parent) as folder:
                    found = _entry(key, path)
                    if (
                        found is None
                        or expected not in {None, found.etag}
                        or written_ns not in {None, found.modified_ns}
                    ):
                        return False
                    path.unlink()
                    os.fsync(folder)
            except (FileNotFoundError, NotADirectoryError):
                return False
            with suppress(OSError):  # not empty, or another process deleted it
                for empty in path.parents:
                    if empty == self._root:
                        break
                    empty.rmdir()
            return True

    @override
    def now_ns(self) -> int:
        """The file system's, which may be another host's; this host's where the folder cannot be written to."""
        if self._root.is_dir():
            with suppress(OSError), _temporary_file(self._root / "now", lambda _: None) as made:
                return made.stat().st_mtime_ns
        return time.time_ns()

    @override
    def sweep(self, prefix: str = "", *, older_than_s: float) -> int:
        folder = check_prefix(prefix)
        top = self._path(folder[:-1]) if folder else self._root
        swept, before_ns = 0, self.now_ns() - older_than_s * 1e9
        with store_errors(top):
            for name in walk(top):
                path = top / name
                if TEMPORARY.fullmatch(path.name):
                    with suppress(FileNotFoundError):
                        if path.stat().st_mtime_ns <= before_ns:
                            path.rmdir() if path.is_dir() else path.unlink()
                            swept += 1
        return swept

    def local(self, key: str) -> Path | None:
        """The path of the file, if it exists."""
        path = self._path(key)
        with store_errors(path):
            return path if path.is_file() else None

    def table(self, key: str) -> tuple[str, dict[str, str]]:
        """The folder's path; there are no options."""
        return str(self._path(key)), {}

    @override
    def adopt(self, prefix: str) -> None:
        """Does nothing unless the process runs as root."""
        folder = check_prefix(prefix)
        top = self._path(folder[:-1]) if folder else self._root
        if os.geteuid() != 0:
            return
        with store_errors(top):
            if not top.exists():
                return
            owner = self._root.stat()
            for path in (*reversed(top.relative_to(self._root).parents), top.relative_to(self._root)):
                set_owner(self._root / path, owner)
            for place, folders, files in os.walk(top):
                for name in (*folders, *files):
                    set_owner(Path(place, name), owner)

    def _path(self, key: str) -> Path:
        """The path of a key. Raises ConfigurationError if a link on the way leads out of the root."""
        path = self._root / check_key(key)
        if _meets_link(self._root, key):
            resolved = Path(os.path.realpath(path))
            if self._root not in resolved.parents:
                raise link_error(key, self.uri)
        return path


def _meets_link(root: Path, key: str) -> bool:
    """Whether a link is on the way to a key. What this user may not see is none: to open it says so."""
    try:
        return any(place.is_symlink() for place in accumulate(key.split("/"), Path.joinpath, initial=root))
    except OSError:
        return False


def _entry(key: str, path: Path) -> Entry | None:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    # The inode distinguishes two writes within one tick of the clock: both files exist at once for a moment.
    etag = f"{found.st_size:x}-{found.st_mtime_ns:x}-{found.st_ino:x}"
    return Entry(key, found.st_size, etag, found.st_mtime_ns)


def _write(file: Path, data: bytes) -> None:
    with file.open("r+b") as handle:
        handle.write(data)


@contextmanager
def _temporary_file(path: Path, write: Callable[[Path], object]) -> Iterator[Path]:
    """A private file beside `path` with its bytes on the disk; deleted at the end of the block, unless renamed."""
    temporary = path.parent / f".ratchet-{secrets.token_hex(8)}.tmp"
    handle = _open(temporary)
    try:
        try:
            write(temporary)
            set_owner(handle, path.parent.stat())
            os.fsync(handle)
        finally:
            os.close(handle)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _open(temporary: Path) -> int:
    for left in reversed(range(_TRIES)):
        try:
            make_folders(temporary.parent)
            return os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:
            if not left:
                raise
    raise AssertionError("unreachable")
