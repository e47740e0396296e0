"""What a folder needs to be a store: durable folders, owners, locks, and the system's errors in plain words."""

import errno
import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ratchet.contracts.errors import ConfigurationError, RatchetError, Unavailable
from ratchet.contracts.labels import STAGE_USER
from ratchet.store.base import TEMPORARY

STAGE_OWNER = (STAGE_USER, STAGE_USER)
LOCK_TIMEOUT_S = 30.0
_LOCK_POLL_S = 0.005
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_RIGHTS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR})
_SHAPE = frozenset({errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTEMPTY})


@contextmanager
def store_errors(path: Path, *, writing: bool = False) -> Iterator[None]:
    """Turn the system's errors into ours.

    When reading, a folder in a file's place, or the other way round, counts as an absent file: FileNotFoundError.
    """
    try:
        yield
    except OSError as error:
        if not writing and error.errno in _ABSENT:
            raise FileNotFoundError(errno.ENOENT, "not in the store", str(path)) from error
        raise _plain(error, path) from error


def _plain(error: OSError, path: Path) -> RatchetError:
    what = f"{path}: {os.strerror(error.errno) if error.errno else error}"
    if error.errno in _FULL:
        free = shutil.disk_usage(_existing(path)).free
        return Unavailable(
            f"{path}: the disk is full, {free:,} bytes are free; nothing was changed",
            remedy="free space on the store's disk, or move the store; it is tried again",
        )
    if error.errno in _RIGHTS:
        return ConfigurationError(
            f"{what} (as user {os.geteuid()})", remedy="let this user own the store's folder, or choose another store"
        )
    if error.errno in _SHAPE:
        return ConfigurationError(what, remedy="move away what stands in this place of the store")
    return Unavailable(what, remedy="look at the store's disk and the system's log; it is tried again")


def outside(key: str, uri: str) -> ConfigurationError:
    """The error for a key that a link leads out of the store."""
    return ConfigurationError(
        f"{key!r} leads out of {uri} through a symbolic link", remedy="put the file itself in the store's folder"
    )


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def make_folders(folder: Path) -> None:
    """Make a folder and those above it, durably, each with the owner of the one above."""
    if folder.is_dir():
        return
    make_folders(folder.parent)
    owner = folder.parent.stat()
    if _gives(owner):
        _make_given(folder, owner)
    else:
        try:
            folder.mkdir(mode=0o755)
        except FileExistsError:
            if folder.is_file():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None
    sync_folder(folder.parent)


def _make_given(folder: Path, owner: os.stat_result) -> None:
    """Make a folder that has its owner from the first moment: others write into it as soon as they see it."""
    new = folder.parent / f".ratchet-{secrets.token_hex(8)}.tmp"
    new.mkdir(mode=0o755)
    try:
        give(new, owner)
        new.rename(folder)  # over an empty folder too, which changes nothing
    except OSError as error:
        new.rmdir()
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise


def give(what: Path | int, owner: os.stat_result) -> None:
    """As root, hand a file, a folder or an open file to an owner. Links themselves, not what they lead to."""
    if _gives(owner):
        if isinstance(what, int):
            os.fchown(what, owner.st_uid, owner.st_gid)
        else:
            os.chown(what, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _gives(owner: os.stat_result) -> bool:
    return os.geteuid() == 0 and (owner.st_uid, owner.st_gid) != (0, 0)


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    """A folder's descriptor; it stays good for fsync when the folder's last file goes, and the folder with it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a crash."""
    with opened(folder) as handle:
        os.fsync(handle)


@contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Hold a folder's lock against other processes and threads; it ends with the process at the latest.

    Yields the folder's descriptor. Raises Unavailable if another holds the lock for longer than LOCK_TIMEOUT_S seconds.
    """
    with opened(folder) as handle:
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while not _taken(handle):
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"{folder}: another process has held its lock for {LOCK_TIMEOUT_S:.0f} s",
                    remedy="see who it is with `lslocks`; it is tried again",
                )
            time.sleep(_LOCK_POLL_S)
        yield handle


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def walk(top: Path) -> Iterator[str]:
    """Names of all files below a folder, relative to it, links to files among them, in no order.

    A folder that was never finished counts as a file.
    """
    waiting = [""]
    while waiting:
        below = waiting.pop()
        try:
            with os.scandir(top / below) as entries:
                for entry in entries:
                    name = f"{below}{entry.name}"
                    if entry.is_dir(follow_symlinks=False) and not TEMPORARY.fullmatch(entry.name):
                        waiting.append(f"{name}/")
                    elif entry.is_file() or TEMPORARY.fullmatch(entry.name):
                        yield name
        except (FileNotFoundError, NotADirectoryError):
            continue
