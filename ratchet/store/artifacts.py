"""Reading artifacts: a reader gets only bytes that match their digest."""

import hashlib
import secrets
from pathlib import Path
from typing import TypeVar

from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.result import Artifact
from ratchet.contracts.stored import read_stored
from ratchet.store.base import Store
from ratchet.store.cache import open_cache
from ratchet.store.disk import store_errors

_REMEDY = "run again; if an earlier run made it, run that date again, or restore the file from a backup"
_Model = TypeVar("_Model", bound=Document)


def sha256_file(path: Path) -> str:
    """Sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(store: Store, artifact: Artifact, scratch: Path) -> Path:
    """A local file with the artifact's bytes, verified: the file itself in a folder store, else one in `scratch`.

    A file in `scratch` is taken from this machine's cache if it is cached; then no request goes to the store. Read the
    file, and do not write to it. Raises CorruptArtifact if it is missing, cut or changed.
    """
    local = store.local(artifact.key)
    if local is not None:
        try:
            with store_errors(local):
                _check(store, artifact, local)
        except FileNotFoundError:
            raise missing_error(store, artifact) from None
        return local
    target = scratch / f"{artifact.sha256[:16]}-{artifact.key.rpartition('/')[2]}"
    if target.exists():  # a file gets this name after it is verified
        return target
    temporary = scratch / f".{target.name}-{secrets.token_hex(4)}"
    try:
        cache = open_cache()
        if cache is None:
            _fetch(store, artifact, temporary)
        elif not cache.take(artifact.sha256, artifact.bytes, temporary):
            with cache.room(artifact.bytes) as place:
                _fetch(store, artifact, place or temporary)
                if place is not None:
                    cache.keep(place, artifact.sha256, temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def cache_copy(store: Store, artifact: Artifact, path: Path) -> None:
    """Add a file that was just stored to this machine's cache, so that no stage here downloads it again."""
    if (cache := open_cache()) is not None and store.local(artifact.key) is None:
        cache.adopt(path, artifact.sha256)


def read_bytes(store: Store, artifact: Artifact) -> bytes:
    """Read the artifact's bytes, verified; for artifacts that fit into memory. Raises CorruptArtifact."""
    try:
        data = store.read(artifact.key)
    except FileNotFoundError:
        raise missing_error(store, artifact) from None
    _compare(store, artifact, len(data), hashlib.sha256(data).hexdigest())
    return data


def read_json(store: Store, artifact: Artifact, model: type[_Model]) -> _Model:
    """Read a document that was published as JSON, verified. Raises CorruptArtifact."""
    return read_stored(model, read_bytes(store, artifact), where=f"{store.uri}/{artifact.key}")


def missing_error(store: Store, artifact: Artifact) -> CorruptArtifact:
    """The error for an artifact that does not exist."""
    return CorruptArtifact(f"{store.uri}/{artifact.key} is gone", remedy=_REMEDY)


def _fetch(store: Store, artifact: Artifact, path: Path) -> None:
    _download(store, artifact, path)
    try:
        _check(store, artifact, path)
    except CorruptArtifact:
        # Bytes can also change during the download. If they are damaged in the store, the second download is too.
        _download(store, artifact, path)
        _check(store, artifact, path)


def _download(store: Store, artifact: Artifact, path: Path) -> None:
    try:
        store.download(artifact.key, path)
    except FileNotFoundError:
        raise missing_error(store, artifact) from None


def _check(store: Store, artifact: Artifact, path: Path) -> None:
    size = path.stat().st_size
    _compare(store, artifact, size, sha256_file(path) if size == artifact.bytes else "")


def _compare(store: Store, artifact: Artifact, size: int, sha256: str) -> None:
    where = f"{store.uri}/{artifact.key}"
    if size != artifact.bytes:
        raise CorruptArtifact(f"{where} is damaged: {size:,} bytes instead of {artifact.bytes:,}", remedy=_REMEDY)
    if sha256 != artifact.sha256:
        raise CorruptArtifact(
            f"{where} is damaged: sha256 {sha256[:12]} instead of {artifact.sha256[:12]}", remedy=_REMEDY
        )
