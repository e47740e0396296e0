"""Folders on a disk for the folder store: durable folders, owners, locks, and the system's errors as ours."""

import errno
import fcntl
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ratchet.contracts.environment import variable
from ratchet.contracts.errors import ConfigurationError, NoAnswer, RatchetError, Unavailable
from ratchet.contracts.labels import STAGE_USER
from ratchet.contracts.outages import AWAY
from ratchet.store.base import TEMPORARY

STAGE_OWNER = (STAGE_USER, STAGE_USER)
LOCK_TIMEOUT_S = 30.0
_LOCK_POLL_S = 0.005
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Error numbers of a disk or a quota without space."""
_OF_A_DISK = AWAY | {errno.EIO}
_NAMELESS = frozenset({errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN})
"""Those that reading a file gives, which names none. The others are rather of a connection that a stage has made."""
_RUST = re.compile(r"\(os error (\d+)\)")
"""How libraries in Rust say the number, in their text alone."""
_RIGHTS = frozenset({errno.EACCES, errno.EPERM})
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
        raise _explain(error, path) from error


@contextmanager
def root_errors(root: Path) -> Iterator[None]:
    """Name what is in the way of a store's own folder. Raises ConfigurationError for what no later try can change."""
    try:
        yield
    except OSError as error:
        above = _existing(root)
        if error.errno not in _ABSENT or (above.is_dir() and root.parent != above):
            raise
        what = f"is in {above}, where no folder can be made" if above.is_dir() else f"is at {above}, which is a file"
        raise ConfigurationError(
            f"the store {root} cannot be made: it {what}", remedy=f"name a folder: --store, or {variable('store')}"
        ) from error


def _explain(error: OSError, path: Path) -> RatchetError:
    what = f"{path}: {os.strerror(error.errno) if error.errno else error}"
    if error.errno in FULL:
        free = shutil.disk_usage(_existing(path)).free
        return Unavailable(
            f"{path}: the disk is full, {free:,} bytes are free; nothing was changed",
            remedy="free space on the store's disk, or move the store; run again if no retry follows",
        )
    if error.errno in _RIGHTS:
        return ConfigurationError(
            f"{what} (as user {os.geteuid()})", remedy="let this user own the store's folder, or choose another store"
        )
    if error.errno == errno.EROFS:
        # As Linux mounts a disk after an error of it.
        return Unavailable(what, remedy="mount the store's disk for writing; run again if no retry follows")
    if error.errno in _SHAPE:
        return ConfigurationError(what, remedy="move the file or folder at this path of the store away")
    kind = disk_fault(error) or Unavailable
    return kind(what, remedy="check the store's disk and the system's log; run again if no retry follows")


def disk_fault(error: BaseException) -> type[Unavailable] | None:
    """The kind of error that it is if a disk, or the host that it is on, did not give a file; None if it is another.

    Such an error says nothing of what the file has in it.
    """
    number = _number(error)
    if number not in _OF_A_DISK:
        return None
    return NoAnswer if number in AWAY else Unavailable


def fault_in_place(error: BaseException, folders: Sequence[Path]) -> Unavailable | None:
    """What an error of a library means that reads files of these folders in place; None if it is not of their disks.

    An error that names a file elsewhere is of another disk, such as that of this machine. The error of opening a file
    names it, and that of reading it does not.
    """
    kind = disk_fault(error)
    if kind is None or not folders:
        return None
    name, below = getattr(error, "filename", None), f"a file below {' or '.join(map(str, folders))}"
    remedy = "check the disk of the store or of the source, and the system's log; run again if no retry follows"
    if isinstance(name, str | bytes | os.PathLike):
        place = Path(os.path.realpath(os.fsdecode(name)))
        if not any(place.is_relative_to(folder) for folder in folders):
            return None
        return kind(f"{below} cannot be read now: {error}", remedy=remedy)
    if _number(error) not in _NAMELESS:
        return None
    return kind(f"{error}: rather of {below} than of what the pipeline's own code reads or connects to", remedy=remedy)


def _number(error: BaseException) -> int | None:
    if not isinstance(error, OSError):
        return None
    said = _RUST.search(str(error)) if error.errno is None else None
    return int(said[1]) if said else error.errno


def link_error(key: str, uri: str) -> ConfigurationError:
    """The error for a key whose path leaves the store through a link."""
    return ConfigurationError(
        f"{key!r} leads out of {uri} through a symbolic link", remedy="put the file itself in the store's folder"
    )


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def make_folders(folder: Path) -> None:
    """Create a folder and its parents, durably, each with the owner of its parent."""
    if folder.is_dir():
        return
    make_folders(folder.parent)
    owner = folder.parent.stat()
    if _changes_owner(owner):
        _make_owned(folder, owner)
    else:
        try:
            folder.mkdir(mode=0o755)
        except FileExistsError:
            if folder.is_file():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None
    sync_folder(folder.parent)


def _make_owned(folder: Path, owner: os.stat_result) -> None:
    """Create a folder that has its owner at once, since other processes write into it as soon as they see it."""
    new = folder.parent / f".ratchet-{secrets.token_hex(8)}.tmp"
    new.mkdir(mode=0o755)
    try:
        set_owner(new, owner)
        new.rename(folder)  # it may replace an empty folder, which changes nothing
    except OSError as error:
        new.rmdir()
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise


def set_owner(what: Path | int, owner: os.stat_result) -> None:
    """As root, set the owner of a file, a folder or an open file. Sets that of a link itself, not of its target."""
    if _changes_owner(owner):
        if isinstance(what, int):
            os.fchown(what, owner.st_uid, owner.st_gid)
        else:
            os.chown(what, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _changes_owner(owner: os.stat_result) -> bool:
    return os.geteuid() == 0 and (owner.st_uid, owner.st_gid) != (0, 0)


@contextmanager
def open_folder(folder: Path) -> Iterator[int]:
    """A folder's descriptor. It stays valid for fsync if the folder is deleted with its last file."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Flush a folder, so that the names in it survive a crash."""
    with open_folder(folder) as handle:
        os.fsync(handle)


@contextmanager
def lock_folder(folder: Path) -> Iterator[int]:
    """Hold a folder's lock against other processes and threads. The kernel releases it when the process ends.

    Yields the folder's descriptor. Raises NoAnswer if another holds the lock for longer than LOCK_TIMEOUT_S seconds.
    """
    with open_folder(folder) as handle:
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while not _try_lock(handle):
            if time.monotonic() > deadline:
                raise NoAnswer(
                    f"{folder}: another process has held its lock for {LOCK_TIMEOUT_S:.0f} s",
                    remedy="find the process with `lslocks`; run again if no retry follows",
                )
            time.sleep(_LOCK_POLL_S)
        yield handle


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def walk(top: Path) -> Iterator[str]:
    """Names of all files below a folder, relative to it, links to files included, in no order.

    An unfinished folder of `make_folders` counts as a file.
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
