"""Folders that belong to a process for as long as it lives, wherever it runs: each can tell those of the dead.

Numbers of processes say nothing in other containers. A lock does: the kernel frees it with the process that held it.
"""

import fcntl
import os
import secrets
import shutil
import stat
from contextlib import suppress
from pathlib import Path


def make(parent: Path, what: str) -> tuple[Path, int]:
    """A new folder of the caller's own, and the descriptor that holds its lock; `leave` takes both."""
    while True:
        folder = parent / f"{secrets.token_hex(8)}-{what}"
        folder.mkdir(mode=0o700)
        with suppress(FileNotFoundError, BlockingIOError):  # a sweeper came before the lock
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                lives = os.fstat(handle).st_nlink > 0
            except BaseException:
                os.close(handle)
                raise
            if lives:
                return folder, handle
            os.close(handle)


def leave(folder: Path, handle: int) -> None:
    """Remove a folder of one's own."""
    shutil.rmtree(folder, ignore_errors=True)
    os.close(handle)


def sweep(parent: Path) -> None:
    """Remove what belongs to nobody who lives. What cannot be removed stays."""
    for found in parent.iterdir():
        with suppress(OSError):
            if not stat.S_ISDIR(found.lstat().st_mode):
                found.unlink()
                continue
            handle = os.open(found, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(found, ignore_errors=True)
            finally:
                os.close(handle)
