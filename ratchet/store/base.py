"""The one seam between Ratchet and where its bytes lie: a folder, an S3 bucket, or memory.

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
    """A file in the store. etag: opaque, another after every write. modified_ns: since 1970, by the store's clock."""

    key: str
    bytes: int
    etag: str
    modified_ns: int


class Store(Protocol):
    """Files by key. Keys are relative paths with `/`; prefixes are folders, and "" is the whole store.

    Every call raises ConfigurationError for a key that leads elsewhere, for a store that is not there and for rights
    that are missing, and Unavailable for a store that does not answer or is full. Writing makes folders as needed, and
    reading never does, so that a store can be opened on any root, writable or not.
    """

    @property
    def uri(self) -> str:
        """Where the store is; `open_store` of it gives the same store in another process (memory: in this one)."""
        ...

    def prepare(self) -> None:
        """Make the root ready for stages to write to, or say why it cannot be."""
        ...

    def read(self, key: str) -> bytes:
        """All bytes of a file. Raises FileNotFoundError."""
        ...

    def create(self, key: str, data: bytes) -> bool:
        """Write a file that must not exist yet, durably. False if it exists: of many writers exactly one gets True."""
        ...

    def replace(self, key: str, data: bytes, *, expected: str | None) -> bool:
        """Write a file if its etag is still `expected` (None: if there is none), durably. False if it is not."""
        ...

    def upload(self, path: Path, key: str) -> None:
        """Write a local file, durably and whole; what had the key before is replaced. Raises FileNotFoundError."""
        ...

    def download(self, key: str, path: Path) -> None:
        """Write a file of the store to a local path. Raises FileNotFoundError."""
        ...

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """All files below a folder, sorted by key. An absent folder is an empty one."""
        ...

    def head(self, key: str) -> Entry | None:
        """What is known of a file without reading it."""
        ...

    def delete(self, key: str, *, expected: str | None = None) -> bool:
        """Remove a file; with `expected`, only while that is its etag. Whether there was such a file."""
        ...

    def sweep(self, prefix: str = "", *, older_than_s: float) -> int:
        """Remove what crashed writers left half-written below a folder. How many pieces that was."""
        ...

    def local(self, key: str) -> Path | None:
        """The file itself where it can be mapped into memory in place, else None."""
        ...

    def table(self, key: str) -> tuple[str, dict[str, str]]:
        """URI and storage options for a Delta table, safe for concurrent writers."""
        ...

    def adopt(self, prefix: str) -> None:
        """Give what another library has written below a folder the same owner as what the store writes itself."""
        ...


def check_key(key: str) -> str:
    """A key that stays below the root in every store. Raises ConfigurationError."""
    problem = _problem(key)
    if problem:
        raise ConfigurationError(
            f"store key {key[:120]!r}: {problem}",
            remedy="use a relative path without `.` or `..`, at most 1024 bytes long, 255 between slashes",
        )
    return key


def check_prefix(prefix: str) -> str:
    """A folder as "" or with a slash at its end, ready to be put before names."""
    return f"{check_key(prefix.removesuffix('/'))}/" if prefix else ""


def _problem(key: str) -> str | None:  # noqa: PLR0911 - one line for each rule
    try:
        length = len(key.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode"
    if not key or length > MAX_KEY_BYTES:
        return "is empty" if not key else "is too long"
    if _CONTROL.search(key) or "\\" in key:
        return "has a control character or a backslash in it"
    for segment in key.split("/"):
        if segment in {"", ".", ".."}:
            return "is absolute" if key.startswith("/") else f"has {segment!r} as a step"
        if len(segment.encode()) > MAX_SEGMENT_BYTES:
            return "has a step that is too long"
        if TEMPORARY.fullmatch(segment):
            return "is the name of a temporary file of the store"
    return None
