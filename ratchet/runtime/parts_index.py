"""The parts of days that a stage used last, in one document: a night asks for the new day, and not for each day again.

It is no authority. A part is taken from it only while its manifest and all its outputs have the etags that they had
when they were last found whole; any other part is looked for where it is published. Over the network a part may have
been found whole by its size alone: its line says so, and its etags do not count as compared. The document is lines of
JSON: the digest of all others, then a line for each part, which is read when it is asked for, and written again as it
is.

A change here violates the promise of the project when a part is taken that somebody has written since, or that a
rebuild has replaced.
"""

import json
from collections.abc import Container, Mapping

from ratchet.contracts.errors import OtherRelease
from ratchet.contracts.fingerprint import canonical, digest
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.stored import read_stored
from ratchet.store.base import Entry, Store

_UNREAD = ""
"""In the place of a file's key: nobody has compared the bytes of this part."""
_Lines = Mapping[str, tuple[bytes, bytes]]
"""By fingerprint: the etags of a part's files, and the part."""


class IndexOfParts:
    """The index of one kind of part, as it was when a build began. stored: the files of that kind, by key."""

    def __init__(self, store: Store, key: str, stored: Mapping[str, Entry]) -> None:
        self._store, self._key = store, key
        entry = stored.get(key)
        self._etag = entry.etag if entry else None
        self._lines = _read(store, key) if entry else {}
        self.stored = stored

    def find(self, fingerprint: str) -> PublishedResult | None:
        """The part, if nobody has written one of its files since it was found whole."""
        etags, found = self._lines.get(fingerprint, (b"{}", b""))
        known: dict[str, str] = json.loads(etags)
        known.pop(_UNREAD, None)
        if not known or any(key not in self.stored or self.stored[key].etag != etag for key, etag in known.items()):
            return None
        try:
            return read_stored(PublishedResult, found, where=self._key)
        except OtherRelease:
            return None  # the part itself says whether this release can read it

    def keep(
        self, parts: Mapping[str, PublishedResult], new: Mapping[str, Entry], unread: Container[str] = frozenset()
    ) -> None:
        """Let the index have these parts, which are whole, and no others. new: the files that this build wrote.

        unread: files that it took by their size alone. Another build may be faster.
        """
        stored = {**self.stored, **new}
        made: dict[str, tuple[bytes, bytes]] = {}
        for fingerprint, found in sorted(parts.items()):
            if (etags := _etags(found, stored)) is None:
                continue
            before, of_before = self._lines.get(fingerprint), _line(etags | {_UNREAD: ""})
            is_unread = any(one.key in unread for one in found.result.outputs.values())
            line = of_before if is_unread or (before is not None and before[0] == of_before) else _line(etags)
            made[fingerprint] = before if before is not None and before[0] == line else (line, _plain(found))
        if made != self._lines:
            self._store.replace(self._key, _render(made), expected=self._etag)


def indexed_parts(store: Store, key: str) -> list[PublishedResult]:
    """The parts that a stage used last; empty without an index. Raises OtherRelease for a line of another one."""
    return [read_stored(PublishedResult, line, where=key) for _, line in _read(store, key).values()]


def indexed_etags(store: Store, key: str) -> dict[str, str]:
    """The etags that files of these parts had when their bytes were last compared, or written, by key."""
    lines = [json.loads(etags) for etags, _ in _read(store, key).values()]
    return {file: etag for etags in lines if _UNREAD not in etags for file, etag in etags.items()}


def _line(etags: Mapping[str, str]) -> bytes:
    return json.dumps(etags, sort_keys=True).encode()


def _plain(found: PublishedResult) -> bytes:
    return canonical(found.model_copy(update={"reused": True}))


def _render(lines: _Lines) -> bytes:
    body = b"".join(b"%s\t%s\t%s\n" % (name.encode(), *line) for name, line in lines.items())
    return digest(body).encode() + b"\n" + body


def _read(store: Store, key: str) -> dict[str, tuple[bytes, bytes]]:
    """The lines of the index; none of one that is gone, damaged, or in the form of before."""
    try:
        sha256, _, body = store.read(key).partition(b"\n")
    except FileNotFoundError:
        return {}
    if digest(body).encode() != sha256:
        return {}
    lines = (line.split(b"\t") for line in body.splitlines())
    return {name.decode(): (etags, found) for name, etags, found in lines}


def _etags(found: PublishedResult, stored: Mapping[str, Entry]) -> dict[str, str] | None:
    """The etags of a part's files; None if one is not there, or has another size."""
    etags = {}
    for key, size in ((found.key, None), *((file.key, file.bytes) for file in found.result.outputs.values())):
        entry = stored.get(key)
        if entry is None or size not in {None, entry.bytes}:
            return None
        etags[key] = entry.etag
    return etags
