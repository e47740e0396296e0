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
from ratchet.store.artifacts import cache_copy, fetch, sha256_file
from ratchet.store.base import Store
from ratchet.store.cache import scratch
from ratchet.store.sealed import seal, unseal

_REMEDY = "run again; the damaged result is moved aside and computed again"
MANIFEST = "manifest"  # the name that reports a damaged manifest
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
        self._sent = False  # whether a store may have the manifest, though it has not answered

    @property
    def outputs(self) -> Mapping[str, Artifact]:
        """The outputs so far, by name."""
        return dict(self._outputs)

    def add(self, name: str, path: Path, rows: int | None = None) -> Artifact:
        """Store a file as an output; it is durable when this returns, and visible when the transaction commits."""
        key = self._key(name)
        with ThreadPoolExecutor(1) as pool:  # reading for the digest and writing take a core each
            sha256 = pool.submit(sha256_file, path)
            self._store.upload(path, key)
        artifact = Artifact(key=key, sha256=sha256.result(), bytes=path.stat().st_size, rows=rows)
        cache_copy(self._store, artifact, path)
        return self._add(name, artifact)

    def add_bytes(self, name: str, data: bytes, rows: int | None = None) -> Artifact:
        """Store bytes as an output, as `add` does a file."""
        key = self._key(name)
        if not self._store.create(key, data):
            raise AssertionError(f"{key} is in a private place, and yet another process wrote it")
        return self._add(name, Artifact(key=key, sha256=digest(data), bytes=len(data), rows=rows))

    def refer(self, name: str, artifact: Artifact) -> Artifact:
        """Make a file that is published already an output too, so that verifying the result verifies it."""
        self._key(name)
        return self._add(name, artifact)

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
        """Publish the outputs as the result. If another attempt has published the same, ours are deleted.

        Raises PublishConflict if another attempt has published something else, CorruptArtifact if that is damaged.
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
            self._sent = True
            if self._store.create(key, manifest):
                return Published(key=key, result=result, reused=False)
            existing = published(self._store, self._prefix)
            if existing is not None:
                return self._yield_to(existing, content)
            # It was damaged, and has been moved aside since: now it can be ours.
        raise Unavailable(f"{self._store.uri}/{key} is published and removed again and again by other processes")

    def abandon(self) -> None:
        """Delete what was added, except what a published result names or may come to name.

        The manifest can be there although `commit` has raised: its answer was lost, or a notice to stop came then.
        """
        try:
            existing = published(self._store, self._prefix)
        except CorruptArtifact:
            return  # nobody can say what it names; what it does not name is collected later
        if existing is not None or not self._sent:
            self._delete(existing)

    def _delete(self, existing: Published | None) -> None:
        outputs = existing.result.outputs.values() if existing else ()
        named = {artifact.key for artifact in outputs}
        for entry in list(self._store.list(self._place)):
            if entry.key not in named:
                self._store.delete(entry.key)
        self._outputs.clear()

    def _yield_to(self, existing: Published, content: str) -> Published:
        if any(artifact.key.startswith(f"{self._place}/") for artifact in existing.result.outputs.values()):
            return existing.model_copy(update={"reused": False})  # our own, committed before
        if existing.result.content != content:
            raise PublishConflict(
                f"{self._store.uri}/{existing.key}: attempt {existing.result.attempt} has published content "
                f"{existing.result.content[:12]} under this fingerprint, {self._attempt} has made {content[:12]}",
                remedy=f"make the stage deterministic; compare {self._place} with the published outputs",
            )
        self._delete(existing)
        return existing

    def _key(self, name: str) -> str:
        if name in self._outputs:
            raise ValueError(f"output {name!r} was added before")
        return f"{self._place}/{paths.segment(name)}"

    def _add(self, name: str, artifact: Artifact) -> Artifact:
        self._outputs[name] = artifact
        return artifact


def published(store: Store, prefix: str) -> Published | None:
    """The result that is published under a prefix, if any. Raises CorruptArtifact if its manifest is damaged."""
    key = paths.manifest(prefix)
    try:
        data = store.read(key)
    except FileNotFoundError:
        return None
    return _parse(store, key, data)


def read_manifest(store: Store, key: str) -> Published:
    """The manifest of a result that has to exist. Raises CorruptArtifact if it is gone or damaged."""
    try:
        data = store.read(key)
    except FileNotFoundError:
        raise CorruptArtifact(f"{store.uri}/{key} is gone", remedy=_REMEDY) from None
    return _parse(store, key, data)


def verify(store: Store, found: Published, *, quick: bool = False) -> list[str]:
    """Names of the outputs that are gone, cut or changed. quick: compare sizes alone; readers check digests anyway.

    For a file in this machine's cache the size in the store is compared too, since readers here do not ask the store.
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
    """Verify the result under a prefix; if it is damaged, move its manifest aside, so that it is computed again.

    Returns the names of the damaged outputs, or MANIFEST; nothing if all is well. Nothing is overwritten: the manifest
    goes to `damaged/` below the prefix, and the outputs stay where they are until they are collected.
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
        store.create(paths.damaged(prefix, digest(data)), data)
        # Another process may have replaced it meanwhile: only the manifest that was verified is deleted.
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
    kept = paths.superseded_manifest(prefix, digest(data))
    store.create(kept, data)
    # Somebody else may have published meanwhile: only what was kept goes.
    store.delete(key, expected=entry.etag)
    return kept


def _parse(store: Store, key: str, data: bytes) -> Published:
    result = unseal(data, StageResult, where=f"{store.uri}/{key}", remedy=_REMEDY)
    return Published(key=key, result=result, reused=True)
