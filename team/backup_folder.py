"""The folder of an installation's backups: one folder for each, named by its time.

A name with a dot is what a killed backup has left: the next one removes it, since only one works at a time.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ratchet.contracts.errors import ConfigurationError, CorruptArtifact, Unavailable
from team.durable import sync, sync_all
from team.settings import BACKUPS
from team.stack import Stack

MANIFEST = "manifest.json"
"""Written last: SHA-256 of each file by its path, secrets included."""
OLD = timedelta(hours=26)
"""A day and the time that a backup may take."""
_TIME = "%Y-%m-%dT%H%M%SZ"
_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d{6}Z")
_LOCK, _COPIED = ".lock", ".copied"


def backups_of(stack: Stack) -> Path:
    """The folder of an installation's backups."""
    return stack.home.parent / BACKUPS / stack.settings.project


def now() -> str:
    """The name of a backup that is made now."""
    return datetime.now(UTC).strftime(_TIME)


def is_name(name: str) -> bool:
    """Whether a backup has this name."""
    return _NAME.fullmatch(name) is not None


@contextmanager
def alone(backups: Path) -> Iterator[None]:
    """Raises Unavailable if another backup or restore of the installation works; removes what a killed one has left."""
    backups.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (backups / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Unavailable(
                f"another backup or restore works in {backups}", remedy="wait until it has ended"
            ) from error
        for left in backups.glob(".*/"):
            shutil.rmtree(left)
        for file in backups.glob("*/.*.tar"):
            file.unlink()
        yield


def whole(backups: Path) -> list[str]:
    """The names of the finished backups, the newest first."""
    found = (path.name for path in backups.glob("*/") if is_name(path.name) and (path / MANIFEST).is_file())
    return sorted(found, reverse=True)


def last_made(backups: Path) -> str | None:
    """The finished backup that was written last, whatever its name: the clock may have been ahead."""
    return max(whole(backups), key=lambda name: (backups / name / MANIFEST).stat().st_mtime_ns, default=None)


def prune(backups: Path, keep: int, *, but: str | None = None) -> list[str]:
    """Delete all but the newest ones; the names of those that went. but: one that stays, whatever the clock said."""
    gone = [name for name in whole(backups)[keep:] if name != but]
    for name in gone:
        left = (backups / name).rename(backups / f".{name}")
        shutil.rmtree(left)
    return gone


def note_copy(backups: Path, name: str, place: str) -> None:
    """Remember that a backup was copied to a place, and verified there."""
    (backups / _COPIED).write_text(f"{name} {place}", encoding="utf-8")


def describe_last(backups: Path, place: str | None) -> tuple[str, bool]:
    """When the last backup was, in a sentence, and whether it is fine. place: where copies go, if they go anywhere."""
    names = whole(backups)
    if not names:
        return "no backup was made yet; `make backup` makes one", place is None
    age = _age(names[0])
    said = f"last backup: {names[0]}, {age.total_seconds() / 3600:.0f} h ago"
    if place is None:
        return said, True
    noted = backups / _COPIED
    copied = noted.read_text(encoding="utf-8") if noted.is_file() else ""
    is_copied = copied == f"{names[0]} {place}"
    said += f", copied to {place}" if is_copied else f", not copied to {place}"
    if age > OLD:
        return (
            f"{said}; it is older than {OLD.total_seconds() / 3600:.0f} h: run `make backup`, and see why cron did not",
            False,
        )
    return said, is_copied


def _age(name: str) -> timedelta:
    return datetime.now(UTC) - datetime.strptime(name, _TIME).replace(tzinfo=UTC)


def write_manifest(folder: Path) -> None:
    """Finish a backup: note the digest of each file, when all of them are on the disk."""
    sync_all(folder)
    with (folder / MANIFEST).open("w", encoding="utf-8") as out:
        out.write(json.dumps(digests(folder), indent=1))
        out.flush()
        os.fsync(out.fileno())
    sync(folder)


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file by its path, secrets included."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)
    return {path.relative_to(folder).as_posix(): sha256(path) for path in files}


def read_manifest(folder: Path) -> dict[str, str]:
    """The digests of a backup's files. Raises ConfigurationError if it is no backup, CorruptArtifact if unreadable."""
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise ConfigurationError(
            f"{folder} is not a backup: it has no {MANIFEST}", remedy="name a folder of `make backup`"
        )
    try:
        files: dict[str, str] = json.loads(manifest.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CorruptArtifact(f"{manifest} is damaged: {error}", remedy="restore another backup") from error
    return files


def check(folder: Path, needed: Iterable[str] = ()) -> None:
    """Raises ConfigurationError if it is not a backup or one of another set-up, CorruptArtifact if it is damaged.

    needed: the files that a restore reads.
    """
    files = read_manifest(folder)
    absent = [name for name in (*needed, "secrets/made.json") if name not in files]
    if absent:
        raise ConfigurationError(
            f"{folder} has no {', '.join(absent)}", remedy="restore it with the .env that it was made with"
        )
    for name, digest in files.items():
        if not (folder / name).is_file() or sha256(folder / name) != digest:
            raise CorruptArtifact(f"{folder / name} is missing or damaged", remedy="restore another backup")


def sha256(path: Path) -> str:
    """The digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
