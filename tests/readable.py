"""Folders of a test that other users read: a container's user is not root."""

import tempfile
from pathlib import Path


def readable_by_all(folder: Path) -> Path:
    """The folder, which other users reach now: pytest makes its own folders for their owner alone.

    The machine's folder for temporary files, and what lies outside of it, stay as they are.
    """
    machines = Path(tempfile.gettempdir()).resolve()
    for each in (folder, *folder.parents):
        if each.resolve() == machines or not each.resolve().is_relative_to(machines):
            break
        each.chmod(each.stat().st_mode | 0o055)
    return folder
