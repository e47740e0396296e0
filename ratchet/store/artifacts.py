"""Reading artifacts: nobody sees a byte that does not match its digest."""

import hashlib
import secrets
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.result import Artifact
from ratchet.store.base import Store
from ratchet.store.cache import opened

_REMEDY = "run again: what this run made is made anew; what an earlier one made, run that date again, or restore it"
_Model = TypeVar("_Model", bound=Document)


def sha256_file(path: Path) -> str:
    """Sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(store: Store, artifact: Artifact, scratch: Path) -> Path:
    """A local file with the artifact's bytes, verified: the store's own where it is a folder, else one in `scratch`.

    That one comes from this machine's cache where it is there, without asking the store. The file is to be read, not
    written. Raises CorruptArtifact if it is gone, cut or changed.
    """
    local = store.local(artifact.key)
    if local is not None:
        _check(store, artifact, local)
        return local
    target = scratch / f"{artifact.sha256[:16]}-{artifact.key.rpartition('/')[2]}"
    if target.exists():  # verified when it got this name
        return target
    temporary = scratch / f".{target.name}-{secrets.token_hex(4)}"
    try:
        cache = opened()
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


def made(store: Store, artifact: Artifact, path: Path) -> None:
    """Remember a file that was just stored, so that whoever fetches it on this machine need not download it."""
    if (cache := opened()) is not None and store.local(artifact.key) is None:
        cache.adopt(path, artifact.sha256)


def read_bytes(store: Store, artifact: Artifact) -> bytes:
    """The artifact's bytes, verified; for what fits into memory. Raises CorruptArtifact."""
    try:
        data = store.read(artifact.key)
    except FileNotFoundError:
        raise gone(store, artifact) from None
    _compare(store, artifact, len(data), hashlib.sha256(data).hexdigest())
    return data


def read_json(store: Store, artifact: Artifact, model: type[_Model]) -> _Model:
    """A document that was published as JSON, verified. Raises CorruptArtifact."""
    try:
        return model.model_validate_json(read_bytes(store, artifact))
    except ValidationError as error:
        raise CorruptArtifact(
            f"{store.uri}/{artifact.key} is no {model.__name__}: {error.errors()[0]['msg']}", remedy=_REMEDY
        ) from error


def gone(store: Store, artifact: Artifact) -> CorruptArtifact:
    """The error for an artifact that is not there."""
    return CorruptArtifact(f"{store.uri}/{artifact.key} is gone", remedy=_REMEDY)


def _fetch(store: Store, artifact: Artifact, path: Path) -> None:
    _download(store, artifact, path)
    try:
        _check(store, artifact, path)
    except CorruptArtifact:
        # Bytes can also change on their way: what is damaged in the store is so the second time too.
        _download(store, artifact, path)
        _check(store, artifact, path)


def _download(store: Store, artifact: Artifact, path: Path) -> None:
    try:
        store.download(artifact.key, path)
    except FileNotFoundError:
        raise gone(store, artifact) from None


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
