"""The only interface between Ratchet and its storage: a folder, an S3 bucket, or memory.

A change here violates the promise of the project when: a conditional create can succeed twice for one key; a reader can
see half of a write; or a write returns before its bytes would survive a crash.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from ratchet.contracts.errors import ConfigurationError

MAX_KEY_BYTES = 1024  # S3's limit
MAX_SEGMENT_BYTES = 255  # that of most file systems
TEMPORARY = re.compile(r"\.ratchet-[0-9a-f]{16}\.tmp")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Entry(NamedTuple):
    """A file in the store. etag: opaque; every write changes it. modified_ns: since 1970, by the store's clock."""

    key: str
    bytes: int
    etag: str
    modified_ns: int


class Store(Protocol):
    """Files by key. Keys are relative paths with `/`; prefixes are folders, and "" is the whole store.

    Every call raises ConfigurationError for a key that leads out of the store, for a store that does not exist and for
    missing rights, and Unavailable for a store that does not answer or is full. Writing creates folders as needed;
    reading never does, so that a store can be opened on any root, writable or not.
    """

    @property
    def uri(self) -> str:
        """The URI of the store. `open_store` opens the same store by it in any process (memory: in this one)."""
        ...

    def prepare(self) -> None:
        """Prepare the root so that stages can write to it. Raises ConfigurationError if that is impossible."""
        ...

    def read(self, key: str) -> bytes:
        """All bytes of a file. Raises FileNotFoundError."""
        ...

    def create(self, key: str, data: bytes) -> bool:
        """Write a file that does not exist yet, durably. False if it exists: of many writers exactly one gets True."""
        ...

    def replace(self, key: str, data: bytes, *, expected: str | None) -> bool:
        """Write a file if its etag is still `expected` (None: if it does not exist), durably. False otherwise."""
        ...

    def swap(self, key: str, data: bytes, *, expected: str) -> str | None:
        """As `replace`, in as many requests; returns the etag of what was written, None if nothing was."""
        ...

    def upload(self, path: Path, key: str) -> None:
        """Write a local file in one step, durably; it replaces an old file of the key. Raises FileNotFoundError."""
        ...

    def download(self, key: str, path: Path) -> None:
        """Write a file of the store to a local path. Raises FileNotFoundError."""
        ...

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """All files below a folder, sorted by key. A folder that does not exist counts as empty."""
        ...

    def head(self, key: str) -> Entry | None:
        """The entry of a file; None if it does not exist. Does not read the file."""
        ...

    def delete(self, key: str, *, expected: str | None = None, written_ns: int | None = None) -> bool:
        """Delete a file. Returns whether it was deleted.

        expected: only if that is its etag. written_ns: only if it was written then; some etags are of the bytes alone.
        """
        ...

    def now_ns(self) -> int:
        """What the store's clock shows, by which it dates what is written. No reader sees that it was asked."""
        ...

    def sweep(self, prefix: str = "", *, older_than_s: float) -> int:
        """Delete the unfinished files of crashed writers below a folder. Returns how many it deleted."""
        ...

    def local(self, key: str) -> Path | None:
        """The path of the file, if it is on this machine; else None."""
        ...

    def table(self, key: str) -> tuple[str, dict[str, str]]:
        """URI and storage options for a Delta table, safe for concurrent writers."""
        ...

    def adopt(self, prefix: str) -> None:
        """Give the files that another library wrote below a folder the owner that the store's files have."""
        ...


def check_key(key: str) -> str:
    """Check that a key stays below the root in every store; returns it. Raises ConfigurationError."""
    problem = _problem(key)
    if problem:
        raise ConfigurationError(
            f"store key {key[:120]!r}: {problem}",
            remedy="use a relative path without `.` or `..`, at most 1024 bytes long, 255 between slashes",
        )
    return key


def check_prefix(prefix: str) -> str:
    """Check a folder; returns "" or the folder with a slash at its end."""
    return f"{check_key(prefix.removesuffix('/'))}/" if prefix else ""


def _problem(key: str) -> str | None:  # noqa: PLR0911 - one line for each rule
    try:
        length = len(key.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode"
    if not key or length > MAX_KEY_BYTES:
        return "is empty" if not key else "is too long"
    if _CONTROL.search(key) or "\\" in key:
        return "has a control character or a backslash"
    for segment in key.split("/"):
        if segment in {"", ".", ".."}:
            return "is absolute" if key.startswith("/") else f"has {segment!r} as a segment"
        if len(segment.encode()) > MAX_SEGMENT_BYTES:
            return "has a segment that is too long"
        if TEMPORARY.fullmatch(segment):
            return "is the name of a temporary file of the store"
    return None
