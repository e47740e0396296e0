"""Publishing a stage's result: the last step of a transaction, one conditional create, makes all outputs visible.

A change here violates the promise of the project when: an output can be seen before all outputs of its manifest are
durable; a published result can change; or two attempts can publish different results under one fingerprint. There are
two exceptions, which keep what they replace: a rebuild that a person asked for replaces the manifest in one step, and
`set_aside` takes that of a register away whose decision no longer holds. A third keeps nothing: a purge takes out what
was made of rows that it removes.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from posixpath import commonpath
from types import MappingProxyType

from pydantic import JsonValue

from ratchet.contracts import paths
from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact, NoAnswer, OtherRelease, PublishConflict
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.result import Artifact, PublishedResult, StageResult
from ratchet.contracts.stage_environment import StageEnvironment
from ratchet.store.artifacts import cache_copy, fetch, sha256_file
from ratchet.store.base import Entry, Store
from ratchet.store.cache import scratch
from ratchet.store.sealed import seal, unseal

_REMEDY = "run again; the run moves the damaged result aside and computes it again"
MANIFEST = "manifest"  # the name that reports a damaged manifest
_TRIES = 3
_THREADS = 2
_FEW = 8


class Transaction:
    """The outputs of one attempt, in a private folder below the prefix until `commit` publishes them."""

    def __init__(self, store: Store, prefix: str, attempt: str, *, place: str | None = None) -> None:
        """place: that of the transaction in another process, which commits what is added here."""
        self._store = store
        self._prefix = prefix
        self._attempt = paths.segment(attempt)
        # An attempt may start twice, for example after a lost answer. It must not overwrite what its first start wrote.
        self._place = place or f"{prefix}/{paths.segment(f'{attempt}-{secrets.token_hex(4)}')}"
        self._outputs: dict[str, Artifact] = {}
        self._sent = False  # whether a store may have the manifest, though it has not answered

    @property
    def place(self) -> str:
        """The private folder in the store."""
        return self._place

    @property
    def outputs(self) -> Mapping[str, Artifact]:
        """The outputs so far, by name."""
        return dict(self._outputs)

    def adopt(self, outputs: Mapping[str, Artifact]) -> None:
        """Take over what another process has added in this place."""
        self._outputs.update(outputs)

    def add(self, name: str, path: Path, rows: int | None = None) -> Artifact:
        """Store a file as an output; it is durable when this returns, and visible when the transaction commits."""
        key = self._key(name)
        with ThreadPoolExecutor(1) as pool:  # the digest and the upload take a core each
            sha256 = pool.submit(sha256_file, path)
            self._store.upload(path, key)
        artifact = Artifact(key=key, sha256=sha256.result(), bytes=path.stat().st_size, rows=rows)
        cache_copy(self._store, artifact, path)
        return self._add(name, artifact)

    def add_bytes(self, name: str, data: bytes, rows: int | None = None) -> Artifact:
        """Store bytes as an output, as `add` does a file."""
        key = self._key(name)
        if not self._store.create(key, data):
            raise AssertionError(f"{key} is in a private folder, but another process wrote it")
        return self._add(name, Artifact(key=key, sha256=digest(data), bytes=len(data), rows=rows))

    def refer(self, name: str, artifact: Artifact) -> Artifact:
        """Add a file that is published already as an output, so that `verify` checks it with the result."""
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
        rebuild: bool = False,
        environment: StageEnvironment | None = None,
    ) -> PublishedResult:
        """Publish the outputs as the result. If another attempt has published the same content, delete ours.

        rebuild: a person asked for it, so other content takes the place of what is published, in one step: at every
        moment readers find the old result or the new one. The old manifest is kept under `superseded/`.

        Raises PublishConflict if another attempt has published other content, CorruptArtifact if that is damaged,
        NoAnswer if others keep publishing and removing it: that ends by itself.
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
            environment=environment,
        )
        key = paths.manifest(self._prefix)
        manifest = seal(result)
        for _ in range(_TRIES):
            self._sent = True
            if self._store.create(key, manifest):
                return PublishedResult(key=key, result=result, reused=False)
            entry = self._store.head(key)
            existing = find_result(self._store, self._prefix)
            if entry is None or existing is None:
                continue  # it was damaged, and another process has moved it aside since: try to create ours
            if not rebuild or self._is_ours(existing) or existing.result.content == content:
                return self._yield_to(existing, content)
            kept = _copy_aside(self._store, self._prefix)
            # Only what was copied may go: another rebuild may have published since.
            if kept and self._store.replace(key, manifest, expected=entry.etag):
                return PublishedResult(key=key, result=result, reused=False, superseded=kept)
        raise NoAnswer(f"{self._store.uri}/{key}: other processes keep publishing and removing it")

    def abandon(self) -> None:
        """Delete what was added, except what a published result names or may come to name.

        The manifest can be there although `commit` has raised: its answer was lost, or a notice to stop came then.
        """
        try:
            existing = find_result(self._store, self._prefix)
        except (CorruptArtifact, OtherRelease):
            return  # nobody can say what it names; what it does not name is collected later
        if existing is not None or not self._sent:
            self._delete(existing)

    def _delete(self, existing: PublishedResult | None) -> None:
        outputs = existing.result.outputs.values() if existing else ()
        named = {artifact.key for artifact in outputs}
        for entry in list(self._store.list(self._place)):
            if entry.key not in named:
                self._store.delete(entry.key)
        self._outputs.clear()

    def _is_ours(self, existing: PublishedResult) -> bool:
        return any(artifact.key.startswith(f"{self._place}/") for artifact in existing.result.outputs.values())

    def _yield_to(self, existing: PublishedResult, content: str) -> PublishedResult:
        if self._is_ours(existing):
            return existing.model_copy(update={"reused": False})  # our own, committed before
        if existing.result.content != content:
            raise PublishConflict(
                f"{self._store.uri}/{existing.key}: attempt {existing.result.attempt} has published content "
                f"{existing.result.content[:12]} under this fingerprint, {self._attempt} computed {content[:12]}",
                remedy=f"make the stage deterministic; compare {self._place} with the published outputs",
            )
        self._delete(existing)
        return existing

    def _key(self, name: str) -> str:
        if name in self._outputs:
            raise ValueError(f"output {name!r} was already added")
        return f"{self._place}/{paths.segment(name)}"

    def _add(self, name: str, artifact: Artifact) -> Artifact:
        self._outputs[name] = artifact
        return artifact


def find_result(store: Store, prefix: str) -> PublishedResult | None:
    """Find the result that is published under a prefix. Raises CorruptArtifact if its manifest is damaged."""
    key = paths.manifest(prefix)
    try:
        data = store.read(key)
    except FileNotFoundError:
        return None
    return parse(store, key, data)


def read_manifest(store: Store, key: str) -> PublishedResult:
    """Read the manifest of a result that has to exist. Raises CorruptArtifact if it is missing or damaged."""
    try:
        data = store.read(key)
    except FileNotFoundError:
        raise CorruptArtifact(f"{store.uri}/{key} is gone", remedy=_REMEDY) from None
    return parse(store, key, data)


def verify(
    store: Store,
    found: PublishedResult,
    *,
    quick: bool = False,
    compared: Mapping[str, str] = MappingProxyType({}),
    stored: Mapping[str, Entry] = MappingProxyType({}),
) -> list[str]:
    """Names of the outputs that are missing, cut or changed. quick: compare only sizes; readers check digests anyway.

    For a file in this machine's cache, also compares the size in the store, because readers here do not access it.
    compared: etags that files had when their bytes were last compared, by key. Of those that have them still only the
    size is compared, and all of them are asked for with one listing. stored: files that were listed just now.
    """
    listed = stored or _listed(store, [one.key for one in found.result.outputs.values() if one.key in compared])

    def whole(artifact: Artifact) -> bool:
        entry = listed.get(artifact.key) or store.head(artifact.key)
        known = entry is not None and compared.get(artifact.key) == entry.etag
        if quick or known or entry is None or entry.bytes != artifact.bytes:
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


def _listed(store: Store, keys: Sequence[str]) -> dict[str, Entry]:
    """What the folder of many files has in it; nothing for a few, which are asked for one by one."""
    place = commonpath(keys) if len(keys) > _FEW else ""
    return {entry.key: entry for entry in store.list(place)} if place else {}


def discard_damaged(
    store: Store, prefix: str, *, quick: bool = False, compared: Callable[[], Mapping[str, str]] = dict
) -> list[str]:
    """Verify the result under a prefix; if it is damaged, move its manifest aside, so that a run computes it again.

    Returns the names of the damaged outputs, or MANIFEST; an empty list if the result is intact. quick, compared: see
    `verify`; asked for only where there is a result. Overwrites nothing: the manifest goes to `damaged/` below the
    prefix, and the outputs stay in place until `collect` deletes them.
    """
    key = paths.manifest(prefix)
    entry = store.head(key)
    if entry is None:
        return []
    try:
        found = find_result(store, prefix)
        damaged = verify(store, found, quick=quick, compared=compared()) if found else []
    except CorruptArtifact:
        damaged = [MANIFEST]
    if damaged:
        try:
            data = store.read(key)
        except FileNotFoundError:
            return []
        store.create(paths.manifest_aside(paths.damaged(prefix), digest(data)), data)
        # Another process may have replaced it meanwhile: only the manifest that was verified is deleted.
        store.delete(key, expected=entry.etag)
    return damaged


def set_aside(store: Store, prefix: str) -> None:
    """Let a run compute the result under a prefix again, which is whole and no longer holds; its manifest is kept."""
    entry = store.head(paths.manifest(prefix))
    if entry is not None and _copy_aside(store, prefix):
        store.delete(paths.manifest(prefix), expected=entry.etag)


def _copy_aside(store: Store, prefix: str) -> str | None:
    """Copy the manifest under a prefix to `superseded/`. Returns its new key; None if there is no manifest.

    Nothing is lost: runs that used the old result find its outputs in the same place.
    """
    try:
        data = store.read(paths.manifest(prefix))
    except FileNotFoundError:
        return None
    kept = paths.manifest_aside(paths.superseded(prefix), digest(data))
    store.create(kept, data)
    return kept


def parse(store: Store, key: str, data: bytes) -> PublishedResult:
    """The result whose manifest has these bytes. Raises CorruptArtifact, and OtherRelease."""
    result = unseal(data, StageResult, where=f"{store.uri}/{key}", remedy=_REMEDY)
    return PublishedResult(key=key, result=result, reused=True)
