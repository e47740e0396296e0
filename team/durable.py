"""What is written stays written when the power fails."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_all(folder: Path) -> None:
    """Have a folder and everything in it on the disk."""
    for path in folder.rglob("*"):
        sync(path)
    sync(folder)


def rename(path: Path, target: Path) -> Path:
    """Rename in one step that is on the disk afterwards, in a folder that stays the same."""
    moved = path.rename(target)
    sync(target.parent)
    return moved
