"""Folders that belong to a living process, in any container. Every process can find the folders of dead ones.

A process number means nothing in another container. A lock does: the kernel releases it when its process ends.
"""

import fcntl
import os
import secrets
import shutil
import stat
from contextlib import suppress
from pathlib import Path


def make(parent: Path, what: str) -> tuple[Path, int]:
    """Create a private folder. Returns it, and the descriptor that holds its lock; `release` takes both."""
    while True:
        folder = parent / f"{secrets.token_hex(8)}-{what}"
        folder.mkdir(mode=0o700)
        with suppress(FileNotFoundError, BlockingIOError):  # `sweep` in another process came before the lock
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


def release(folder: Path, handle: int) -> None:
    """Delete the caller's folder."""
    shutil.rmtree(folder, ignore_errors=True)
    os.close(handle)


def sweep(parent: Path) -> None:
    """Delete the folders of dead processes. Errors are ignored."""
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
