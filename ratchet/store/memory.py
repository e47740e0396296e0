"""The store in the memory of this process, which tests use."""

import hashlib
import itertools
import sys
import time
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from typing_extensions import override

from ratchet.contracts.errors import ConfigurationError
from ratchet.store.base import Entry, Store, check_key, check_prefix

_LAST = chr(sys.maxunicode)
"""The last of all characters; no key has it."""


class _File(NamedTuple):
    data: bytes
    etag: str
    modified_ns: int


@dataclass
class _Space:
    """The files that all stores of one name share. keys: of the files, sorted, so that a prefix is found at once."""

    files: dict[str, _File] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)
    writes: Iterator[int] = field(default_factory=itertools.count)

    def restore(self, files: Mapping[str, _File]) -> None:
        """Have these files and no others, as a test's store that goes back to an earlier moment."""
        self.files, self.keys = dict(files), sorted(files)


_SPACES: dict[str, _Space] = {}


class MemoryStore(Store):
    """Files in a dictionary. Stores of the same name in a process are the same store."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._space = _SPACES.setdefault(name, _Space())

    @property
    def uri(self) -> str:
        """`mem://name`."""
        return f"mem://{self._name}"

    def prepare(self) -> None:
        """Does nothing."""

    @override
    def read(self, key: str) -> bytes:
        try:
            return self._space.files[check_key(key)].data
        except KeyError:
            raise FileNotFoundError(f"{self.uri}/{key}") from None

    @override
    def create(self, key: str, data: bytes) -> bool:
        return self.replace(key, data, expected=None)

    @override
    def replace(self, key: str, data: bytes, *, expected: str | None) -> bool:
        with self._space.lock:
            if self._etag(key) != expected:
                return False
            self._write(key, data)
            return True

    @override
    def swap(self, key: str, data: bytes, *, expected: str) -> str | None:
        with self._space.lock:
            if self._etag(key) != expected:
                return None
            self._write(key, data)
            return self._etag(key)

    @override
    def upload(self, path: Path, key: str) -> None:
        data = path.read_bytes()
        with self._space.lock:
            self._write(key, data)

    @override
    def download(self, key: str, path: Path) -> None:
        path.write_bytes(self.read(key))

    @override
    def list(self, prefix: str = "") -> Iterator[Entry]:
        folder = check_prefix(prefix)
        with self._space.lock:
            keys = self._space.keys
            below = keys[bisect_left(keys, folder) : bisect_left(keys, f"{folder}{_LAST}")]
            found = [(key, self._space.files[key]) for key in below]
        for key, file in found:
            yield Entry(key, len(file.data), file.etag, file.modified_ns)

    @override
    def head(self, key: str) -> Entry | None:
        file = self._space.files.get(check_key(key))
        return Entry(key, len(file.data), file.etag, file.modified_ns) if file else None

    @override
    def delete(self, key: str, *, expected: str | None = None, written_ns: int | None = None) -> bool:
        with self._space.lock:
            found = self._space.files.get(check_key(key))
            if found is None or expected not in {None, found.etag} or written_ns not in {None, found.modified_ns}:
                return False
            del self._space.files[key]
            del self._space.keys[bisect_left(self._space.keys, key)]
            return True

    @override
    def now_ns(self) -> int:
        return time.time_ns()

    @override
    def sweep(self, prefix: str = "", *, older_than_s: float) -> int:
        check_prefix(prefix)
        return 0

    def local(self, key: str) -> Path | None:
        """Returns None: there is no file on a disk."""
        check_key(key)
        return None

    def table(self, key: str) -> tuple[str, dict[str, str]]:
        """Raises ConfigurationError: a Delta table needs a folder or a bucket."""
        raise ConfigurationError(
            f"{self.uri}/{check_key(key)}: a Delta table cannot be in memory", remedy="use a file:// or s3:// store"
        )

    def adopt(self, prefix: str) -> None:
        """Does nothing: files in memory have no owner."""
        check_prefix(prefix)

    def _etag(self, key: str) -> str | None:
        file = self._space.files.get(check_key(key))
        return file.etag if file else None

    def _write(self, key: str, data: bytes) -> None:
        etag = f"{hashlib.sha256(data).hexdigest()[:16]}-{next(self._space.writes)}"
        if check_key(key) not in self._space.files:
            insort(self._space.keys, key)
        self._space.files[key] = _File(bytes(data), etag, time.time_ns())
