"""Whether a store does what Ratchet needs: rights, writes on a condition, a right clock, room.

A change here violates the promise of the project when a store passes that lets two writers create one file.
"""

import secrets
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from ratchet.contracts import paths
from ratchet.contracts.diagnosis import Diagnosis
from ratchet.contracts.environment import variable
from ratchet.contracts.errors import ConfigurationError, RatchetError
from ratchet.store.base import Store
from ratchet.store.file import FileStore

FREE_BYTES = 5 << 30
SKEW_S = 30.0
_PROBE = "doctor"
_TOKEN_BYTES = 8


def diagnose_store(store: Store) -> Iterator[Diagnosis]:
    """Write a small file under conditions, read it, and delete it. A folder that does not exist yet is not made."""
    if isinstance(store, FileStore) and not store.root.is_dir():
        yield _no_folder(store)
        return
    key = paths.lease(_PROBE, _PROBE, secrets.token_hex(_TOKEN_BYTES))
    try:
        yield from _probe(store, key)
        if isinstance(store, FileStore):
            yield diagnose_disk(store.root, remedy="free some, or take a larger disk")
    except RatchetError as error:
        well = False if isinstance(error, ConfigurationError) else None
        yield Diagnosis(name="store", well=well, text=f"{error.cause}; {error.remedy}".removesuffix("; "))


def _no_folder(store: FileStore) -> Diagnosis:
    """A first run makes a folder that does not exist, and one whose path has a mistake too."""
    setting = f"--store or {variable('store')}"
    if store.root.exists():
        return Diagnosis(name="store", well=False, text=f"{store.root} is a file; name a folder with {setting}")
    text = f"{store.root} does not exist; the first run makes it; if it should hold models, correct {setting}"
    return Diagnosis(name="store", well=None, text=text)


def _probe(store: Store, key: str) -> Iterator[Diagnosis]:
    before = time.time()
    try:
        created, again = store.create(key, b"1"), store.create(key, b"2")
        found = store.head(key)
        stale = store.replace(key, b"3", expected="0" * 32)
        fresh = store.replace(key, b"4", expected=found.etag if found else None)
        kept = store.read(key)
        undeleted = _undeleted(store, key)
    finally:
        after = time.time()
        store.delete(key)
    if not created or again or stale or not fresh or kept != b"4" or found is None:
        what = "If-None-Match" if again or not created else "If-Match"
        yield Diagnosis(
            name="store",
            well=False,
            text=f"{store.uri} does not keep to {what}: of two writers both win; use a server with conditional writes",
        )
        return
    if undeleted:
        text = f"{store.uri} does not delete with If-Match, so no lease ends: {undeleted}"
        yield Diagnosis(name="store", well=False, text=f"{text}; use a server with conditional deletes")
        return
    yield Diagnosis(name="store", well=True, text=f"{store.uri} reads, writes and deletes on a condition")
    yield diagnose_clock(f"the clock of {store.uri}", found.modified_ns / 1e9, since=before, until=after)


def _undeleted(store: Store, key: str) -> str:
    """Why a file stays that is deleted on a condition, as each lease is; empty if it goes.

    Raises RatchetError where the condition is not what the store refuses.
    """
    found = store.head(key)
    try:
        if store.delete(key, expected="0" * 32):
            return "it deletes a file that has changed"
        return "" if found and store.delete(key, expected=found.etag) else "it says that the file has changed"
    except RatchetError as error:
        store.delete(key)
        return error.cause


def diagnose_clock(whose: str, theirs: float, *, since: float, until: float) -> Diagnosis:
    """Whether a clock that showed `theirs` between two moments of this machine's clock agrees with it."""
    if since - SKEW_S <= theirs <= until + SKEW_S:
        return Diagnosis(name="clock", well=True, text=f"{whose} agrees with this machine's")
    return Diagnosis(
        name="clock",
        well=False,
        text=f"{whose} shows {local_time(theirs)}, this machine's {local_time(until)}; S3 refuses requests that are "
        "signed at another time; set both by NTP",
    )


def diagnose_disk(folder: Path, *, remedy: str) -> Diagnosis:
    """Whether the disk of a folder has room."""
    free = shutil.disk_usage(folder).free
    has = f"{folder} has {free / 1e9:.1f} GB left"
    if free < FREE_BYTES:
        return Diagnosis(name="disk", well=False, text=f"{has} and needs at least {FREE_BYTES / 1e9:.0f} GB; {remedy}")
    return Diagnosis(name="disk", well=True, text=has)


def local_time(seconds: float) -> str:
    """A moment in the zone of this machine."""
    return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(sep=" ", timespec="seconds")
