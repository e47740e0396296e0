"""The parts of days that a stage used last, in one document: a night asks for the new day, and not for each day again.

It is no authority. A part is taken from it only while its manifest and all its outputs have the etags that they had
when they were last found whole; any other part is looked for where it is published.

A change here violates the promise of the project when a part is taken that somebody has written since, or that a
rebuild has replaced.
"""

from collections.abc import Mapping

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.result import PublishedResult
from ratchet.store.base import Entry, Store
from ratchet.store.sealed import seal, unseal


class IndexedPart(Document):
    """A part, and the etags of its manifest and its outputs, by key."""

    found: PublishedResult
    etags: dict[str, str]


class PartsIndex(Document):
    """Parts by fingerprint."""

    parts: dict[str, IndexedPart] = Field(default_factory=dict)


class IndexOfParts:
    """The index of one kind of part, as it was when a build began. stored: the files of that kind, by key."""

    def __init__(self, store: Store, key: str, stored: Mapping[str, Entry]) -> None:
        self._store, self._key = store, key
        entry = store.head(key)
        self._etag = entry.etag if entry else None
        self._parts = _read(store, key) if entry else {}
        self._stored = stored

    def find(self, fingerprint: str) -> PublishedResult | None:
        """The part, if nobody has written one of its files since it was found whole."""
        part = self._parts.get(fingerprint)
        if part is None or _etags(part.found, self._stored) != part.etags:
            return None
        return part.found

    def keep(self, parts: Mapping[str, PublishedResult], stored: Mapping[str, Entry]) -> None:
        """Let the index have these parts, which are whole, and no others. Another build may be faster."""
        made = {}
        for fingerprint, found in sorted(parts.items()):
            if (etags := _etags(found, stored)) is not None:
                made[fingerprint] = IndexedPart(found=found.model_copy(update={"reused": True}), etags=etags)
        if made != self._parts:
            self._store.replace(self._key, seal(PartsIndex(parts=made)), expected=self._etag)


def indexed_parts(store: Store, key: str) -> list[PublishedResult]:
    """The parts that a stage used last; empty without an index."""
    return [part.found for part in _read(store, key).values()]


def _read(store: Store, key: str) -> dict[str, IndexedPart]:
    try:
        return unseal(store.read(key), PartsIndex, where=f"{store.uri}/{key}", remedy="run again").parts
    except (CorruptArtifact, FileNotFoundError):
        return {}


def _etags(found: PublishedResult, stored: Mapping[str, Entry]) -> dict[str, str] | None:
    """The etags of a part's files; None if one is not there, or has another size."""
    etags = {}
    for key, size in ((found.key, None), *((file.key, file.bytes) for file in found.result.outputs.values())):
        entry = stored.get(key)
        if entry is None or size not in {None, entry.bytes}:
            return None
        etags[key] = entry.etag
    return etags
