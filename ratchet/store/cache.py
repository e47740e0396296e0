"""A cache of artifacts on this machine's disk, by sha256. All stages here share it, so that each file comes once.

The cache does not trust its files, because the code of any pipeline may write there: it compares a file with its digest
before each use. The file may still change while a stage reads it, because code that may write to the folder may write
to the file. So pipelines that do not trust each other need separate caches.

No stage fails because of the cache: if it is full, read-only or damaged, the stage goes on without it, and logs that
once. There are no locks to wait for. A folder that names a number of bytes reserves space for them, so that each writer
sees the others. A file in use has a second name (a hard link), and is not evicted.

A change here violates the promise of the project when a stage gets bytes that were not compared with their digest, or
when the files and the reservations together can exceed the limit.
"""

import logging
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import file_digest
from pathlib import Path
from typing import NamedTuple

from ratchet.contracts.environment import environment, variable
from ratchet.store import owned_folder

_FREE = 64 << 20
"""Bytes of the disk that stay free for others."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_RESERVED = re.compile(r"[0-9a-f]{16}-(\d{1,18})")
_log = logging.getLogger("ratchet.cache")


class _Entry(NamedTuple):
    used_ns: int
    name: str
    bytes: int
    in_use: bool


class Cache:
    """A folder with `files` by digest, `incoming` downloads and `scratch` folders of stages. limit: of files, bytes."""

    def __init__(self, root: Path, limit: int) -> None:
        self._root = root
        self._files, self._incoming, self._scratch = root / "files", root / "incoming", root / "scratch"
        self._limit = limit
        self._warned = False

    def take(self, sha256: str, size: int, target: Path) -> bool:
        """Link or copy the file with this digest to `target`. False if it is not cached."""
        entry = self._files / sha256
        try:
            _link(entry, target)
            if _is_whole(target, size, sha256):
                with suppress(OSError):
                    os.utime(entry)
                return True
            _log.warning("the cache at %s: %s is damaged; the stage downloads it again", self._root, sha256[:12])
            _remove(entry)
        except FileNotFoundError:
            return False
        except OSError as error:
            self._warn(f"cannot be read: {error}")
        _remove(target)
        return False

    @contextmanager
    def room(self, size: int) -> Iterator[Path | None]:
        """A private path for `size` bytes, within the limit; None if there is no space for them."""
        reserved = self._reserve(size)
        if reserved is None:
            yield None
            return
        try:
            yield reserved[0] / "data"
        finally:
            owned_folder.release(*reserved)

    def keep(self, path: Path, sha256: str, target: Path) -> None:
        """Link a file of `room`, whose bytes have this digest, to `target`, and keep it here under its digest."""
        try:
            path.chmod(0o444)
            os.link(path, target)  # first: a file with a second name is not evicted
        except OSError:
            shutil.copyfile(path, target)
        with suppress(OSError):
            path.replace(self._files / sha256)

    def adopt(self, path: Path, sha256: str) -> None:
        """Keep a file that a stage wrote, without a copy, if it is on the same disk."""
        with suppress(OSError):
            if path.stat().st_dev != self._root.stat().st_dev or (self._files / sha256).exists():
                return
            with self.room(path.stat().st_size) as place:
                if place is not None:
                    os.link(path, place)
                    place.replace(self._files / sha256)

    def forget(self, digests: Iterable[str]) -> None:
        """Delete files of these digests here. Other hosts have caches of their own."""
        for sha256 in digests:
            _remove(self._files / sha256)

    @contextmanager
    def scratch(self) -> Iterator[Path | None]:
        """An empty private folder on the cache's disk, deleted at the end of the block; None if it is impossible.

        If the process is killed, the next one deletes the folder.
        """
        claimed = None
        try:
            self._prepare()
            if self._free() > _FREE:
                claimed = owned_folder.make(self._scratch, "stage")
        except OSError as error:
            self._warn(f"cannot be written: {error}")
        if claimed is None:
            yield None
            return
        try:
            yield claimed[0]
        finally:
            owned_folder.release(*claimed)

    def _reserve(self, size: int) -> tuple[Path, int] | None:
        claimed = None
        try:
            self._prepare()
            claimed = owned_folder.make(self._incoming, str(size))
            if self._make_room(size):
                return claimed
            limit = f"{variable('cache_limit')} = {self._limit:,}"
            self._warn(f"has no space for {size:,} bytes, with {limit}, or its disk is full")
        except OSError as error:
            self._warn(f"cannot be written: {error}")
        if claimed is not None:
            owned_folder.release(*claimed)
        return None

    def _make_room(self, size: int) -> bool:
        """Evict the least recently used files until files and reservations, ours included, are within the limit."""
        # Reservations first: one that becomes a file in between is counted twice; the other order could miss it.
        reserved = sum(self._reservations())
        entries = sorted(self._entries())
        excess = reserved + sum(entry.bytes for entry in entries) - self._limit
        lacking = size + _FREE - self._free()
        for entry in entries:
            if excess <= 0 and lacking <= 0:
                break
            if not entry.in_use:
                _remove(self._files / entry.name)
                excess -= entry.bytes
                lacking -= entry.bytes
        return excess <= 0 and lacking <= 0

    def _reservations(self) -> Iterator[int]:
        for folder in self._incoming.iterdir():
            if found := _RESERVED.fullmatch(folder.name):
                yield int(found.group(1))

    def _entries(self) -> Iterator[_Entry]:
        with os.scandir(self._files) as found:
            for one in found:
                with suppress(FileNotFoundError):
                    state = one.stat(follow_symlinks=False)
                    if stat.S_ISREG(state.st_mode) and _DIGEST.fullmatch(one.name):
                        yield _Entry(state.st_mtime_ns, one.name, state.st_size, state.st_nlink > 1)
                    else:
                        _remove(Path(one.path))

    def _prepare(self) -> None:
        """Create the folders, and delete those of dead processes. Raises OSError."""
        for folder in (self._files, self._incoming, self._scratch):
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                _remove(folder)
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self._incoming, self._scratch):
            owned_folder.sweep(folder)

    def _free(self) -> int:
        return shutil.disk_usage(self._root).free

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            _log.warning("the cache at %s %s; the stage goes on without it", self._root, what)


def open_cache() -> Cache | None:
    """The cache that RATCHET_CACHE names, if any. Raises ConfigurationError for an invalid limit."""
    here = environment()
    return _open(here.cache, here.cache_limit) if here.cache else None


@cache
def _open(root: Path, limit: int) -> Cache:
    return Cache(root, limit)


@contextmanager
def scratch() -> Iterator[Path]:
    """An empty private folder, on the cache's disk if there is a cache: a container's /tmp counts as its memory."""
    found = open_cache()
    if found is not None:
        with found.scratch() as folder:
            if folder is not None:
                yield folder
                return
    with tempfile.TemporaryDirectory(prefix="ratchet-") as folder_name:
        yield Path(folder_name)


def _link(entry: Path, target: Path) -> None:
    """Create a hard link; a copy on another disk, or if the folder is read-only."""
    try:
        os.link(entry, target, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:
        with open(_descriptor(entry), "rb") as file, target.open("xb") as copy:
            shutil.copyfileobj(file, copy, 1 << 20)


def _is_whole(path: Path, size: int, sha256: str) -> bool:
    try:
        with open(_descriptor(path), "rb") as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode) or state.st_size != size:
                return False
            return file_digest(file, "sha256").hexdigest() == sha256
    except OSError:
        return False


def _descriptor(path: Path) -> int:
    """A descriptor of the file itself. Does not follow a link, and does not wait for a pipe."""
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _remove(path: Path) -> None:
    with suppress(OSError):
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
