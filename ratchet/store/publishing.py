"""Publishing a stage's result: a transaction whose last act, one conditional create, makes everything visible.

A change here violates the promise of the project when: an output can be seen before all outputs of its manifest are
durable; a published result can change; or two attempts can publish different results under one fingerprint. A rebuild
that a person asked for is the one exception: `supersede` keeps what it replaces.
"""

import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from pydantic import JsonValue

from ratchet.contracts import paths
from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact, PublishConflict, Unavailable
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.result import Artifact, Published, StageResult
from ratchet.store.artifacts import fetch, made, sha256_file
from ratchet.store.base import Store
from ratchet.store.cache import scratch
from ratchet.store.sealed import seal, unseal

_REMEDY = "run again: the damaged result is moved aside and made anew"
MANIFEST = "manifest"  # the name under which a damaged manifest itself is reported
SUPERSEDED = "superseded"
"""The folder below a prefix that keeps the manifests which a rebuild has replaced."""
_TRIES = 3
_THREADS = 2


class Transaction:
    """The outputs of one attempt, in a private place below the prefix until `commit` makes them the result."""

    def __init__(self, store: Store, prefix: str, attempt: str) -> None:
        self._store = store
        self._prefix = prefix
        self._attempt = paths.segment(attempt)
        # An attempt that is started twice, say after a lost answer, must not write over what its first start published.
        self._place = f"{prefix}/{paths.segment(f'{attempt}-{secrets.token_hex(4)}')}"
        self._outputs: dict[str, Artifact] = {}

    @property
    def outputs(self) -> Mapping[str, Artifact]:
        """What was added so far, by name."""
        return dict(self._outputs)

    def add(self, name: str, path: Path, rows: int | None = None) -> Artifact:
        """Store a file as an output; it is durable when this returns, and visible when the transaction commits."""
        key = self._key(name)
        with ThreadPoolExecutor(1) as beside:  # reading for the digest and writing take a core each
            sha256 = beside.submit(sha256_file, path)
            self._store.upload(path, key)
        artifact = Artifact(key=key, sha256=sha256.result(), bytes=path.stat().st_size, rows=rows)
        made(self._store, artifact, path)
        return self._added(name, artifact)

    def add_bytes(self, name: str, data: bytes, rows: int | None = None) -> Artifact:
        """Store bytes as an output, as `add` does a file."""
        key = self._key(name)
        if not self._store.create(key, data):
            raise AssertionError(f"{key} is in a private place, and yet somebody wrote it")
        return self._added(name, Artifact(key=key, sha256=digest(data), bytes=len(data), rows=rows))

    def refer(self, name: str, artifact: Artifact) -> Artifact:
        """Name a file that is published already as an output too, so that whoever verifies the result verifies it."""
        self._key(name)
        return self._added(name, artifact)

    def commit(
        self,
        *,
        stage: str,
        fingerprint: str,
        parts: Mapping[str, str],
        content: str,
        metrics: Mapping[str, float] | None = None,
        summary: Document | Mapping[str, JsonValue] | None = None,
        timings: Mapping[str, float] | None = None,
    ) -> Published:
        """Make the outputs the result, or find that another attempt has published the same; then ours are deleted.

        Raises PublishConflict if what stands there means something else, CorruptArtifact if it is damaged.
        """
        result = StageResult(
            stage=stage,
            fingerprint=fingerprint,
            parts=dict(parts),
            content=content,
            outputs=dict(self._outputs),
            metrics=dict(metrics or {}),
            summary=summary.model_dump(mode="json", by_alias=True)
            if isinstance(summary, Document)
            else dict(summary or {}),
            timings=dict(timings or {}),
            attempt=self._attempt,
            finished=datetime.now(UTC),
        )
        key = paths.manifest(self._prefix)
        manifest = seal(result)
        for _ in range(_TRIES):
            if self._store.create(key, manifest):
                return Published(key=key, result=result, reused=False)
            standing = published(self._store, self._prefix)
            if standing is not None:
                return self._yield_to(standing, content)
            # It was damaged, and has been moved aside since: now it can be ours.
        raise Unavailable(f"{self._store.uri}/{key} comes and goes; somebody else is mending it")

    def abandon(self) -> None:
        """Delete what was added. Only for a transaction that was not committed."""
        for entry in list(self._store.list(self._place)):
            self._store.delete(entry.key)
        self._outputs.clear()

    def _yield_to(self, standing: Published, content: str) -> Published:
        if any(artifact.key.startswith(f"{self._place}/") for artifact in standing.result.outputs.values()):
            return standing.model_copy(update={"reused": False})  # our own, committed before
        if standing.result.content != content:
            raise PublishConflict(
                f"{self._store.uri}/{standing.key}: attempt {standing.result.attempt} has published content "
                f"{standing.result.content[:12]} under this fingerprint, {self._attempt} has made {content[:12]}",
                remedy=f"the stage is not deterministic: compare {self._place} with what stands, and mend the stage",
            )
        self.abandon()
        return standing

    def _key(self, name: str) -> str:
        if name in self._outputs:
            raise ValueError(f"output {name!r} was added before")
        return f"{self._place}/{paths.segment(name)}"

    def _added(self, name: str, artifact: Artifact) -> Artifact:
        self._outputs[name] = artifact
        return artifact


def published(store: Store, prefix: str) -> Published | None:
    """What stands under a prefix, if anything does. Raises CorruptArtifact if its manifest is damaged."""
    key = paths.manifest(prefix)
    try:
        data = store.read(key)
    except FileNotFoundError:
        return None
    return _parse(store, key, data)


def read_manifest(store: Store, key: str) -> Published:
    """The manifest of a result that has to be there. Raises CorruptArtifact if it is gone or damaged."""
    try:
        data = store.read(key)
    except FileNotFoundError:
        raise CorruptArtifact(f"{store.uri}/{key} is gone", remedy=_REMEDY) from None
    return _parse(store, key, data)


def verify(store: Store, found: Published, *, quick: bool = False) -> list[str]:
    """Names of the outputs that are gone, cut or changed. quick: compare sizes alone; readers check digests anyway.

    Of what this machine has in its cache the size in the store is compared, too: its readers here do not ask the store.
    """

    def whole(artifact: Artifact) -> bool:
        entry = store.head(artifact.key)
        if quick or entry is None or entry.bytes != artifact.bytes:
            return entry is not None and entry.bytes == artifact.bytes
        with scratch() as folder:
            try:
                fetch(store, artifact, folder)
            except CorruptArtifact:
                return False
            return True

    outputs = found.result.outputs
    with ThreadPoolExecutor(_THREADS) as pool:
        return [name for name, good in zip(outputs, pool.map(whole, outputs.values()), strict=True) if not good]


def discard_damaged(store: Store, prefix: str, *, quick: bool = False) -> list[str]:
    """Look at what stands under a prefix and, if it is damaged, move its manifest aside, so that it is made anew.

    What was damaged, by the names of the outputs, or MANIFEST; nothing if all is well. Nothing is overwritten: the
    manifest goes to `damaged/` below the prefix, and the outputs stay where they are until they are collected.
    """
    key = paths.manifest(prefix)
    entry = store.head(key)
    if entry is None:
        return []
    try:
        found = published(store, prefix)
        damaged = verify(store, found, quick=quick) if found else []
    except CorruptArtifact:
        damaged = [MANIFEST]
    if damaged:
        try:
            data = store.read(key)
        except FileNotFoundError:
            return []
        store.create(f"{prefix}/damaged/{digest(data)[:16]}.json", data)
        # Somebody else may have mended it meanwhile: only what was looked at goes.
        store.delete(key, expected=entry.etag)
    return damaged


def supersede(store: Store, prefix: str) -> str | None:
    """Make room for other content under a prefix; None if nothing is published there, else the old manifest's new key.

    For a rebuild alone. Nothing is lost: runs that were made from the old result read its outputs where they were.
    """
    key = paths.manifest(prefix)
    entry = store.head(key)
    if entry is None:
        return None
    try:
        data = store.read(key)
    except FileNotFoundError:
        return None
    kept = f"{prefix}/{SUPERSEDED}/{digest(data)[:16]}.json"
    store.create(kept, data)
    # Somebody else may have published meanwhile: only what was kept goes.
    store.delete(key, expected=entry.etag)
    return kept


def _parse(store: Store, key: str, data: bytes) -> Published:
    result = unseal(data, StageResult, where=f"{store.uri}/{key}", remedy=_REMEDY)
    return Published(key=key, result=result, reused=True)
