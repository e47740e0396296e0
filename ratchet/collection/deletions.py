"""When old rows and old logs of Airflow were deleted last: the time of a file beside the log of alerts.

Who deletes rows has Airflow's database and no key of the store, and each host has logs of its own. So it is a file.

A change here violates the promise of the project when a deletion that has failed counts as one that went well.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

What = Literal["rows", "logs"]
LATE_S: Mapping[What, float] = {"rows": 48 * 3600.0, "logs": 12 * 3600.0}
"""Rows are deleted once a day, and logs once an hour."""


def expect(folder: Path, what: What) -> None:
    """Expect deletions from now on, unless they are expected already. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        _file(folder, what).touch(exist_ok=False)


def mark(folder: Path, what: What) -> None:
    """Mark that a deletion went well. Raises OSError."""
    _file(folder, what).touch()


def late_since(folder: Path, what: What) -> datetime | None:
    """The last deletion, if that is too long ago; None also where none was ever expected."""
    try:
        last = _file(folder, what).stat().st_mtime
    except FileNotFoundError:
        return None
    return datetime.fromtimestamp(last, UTC) if time.time() - last > LATE_S[what] else None


def _file(folder: Path, what: What) -> Path:
    return folder / f"{what}-deleted"
