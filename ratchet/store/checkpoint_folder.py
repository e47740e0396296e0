"""The checkpoints of trainings in the store: each training writes a folder of its own.

Trainings with one resume key compute the same, though perhaps elsewhere or in other micro-batches: each of them reads
the folders of all.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from typing_extensions import override

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact, OtherRelease, RatchetError
from ratchet.contracts.fingerprint import differences
from ratchet.contracts.request import StageRequest
from ratchet.contracts.result import StageResult
from ratchet.contracts.resuming import CheckpointOrigin, mathematics, resume_key
from ratchet.store.base import Store
from ratchet.store.documents import read_document
from ratchet.store.lease import holder_of

ORIGIN = "origin.json"
_MOST_READ = 20
"""Folders that are looked at to say why a training begins with step 0."""
_SHOWN = 3


class ReadFolder:
    """A folder of checkpoints that another training may write. disk: a folder for a file at a time."""

    def __init__(self, store: Store, prefix: str, disk: Path) -> None:
        self._store, self._prefix, self._disk = store, prefix, disk

    def get(self, name: str) -> bytes:
        """Read a file. Raises FileNotFoundError."""
        return self._store.read(f"{self._prefix}/{name}")

    @contextmanager
    def fetch(self, name: str) -> Iterator[Path]:
        """A file on a disk of this machine, while the block runs. Raises FileNotFoundError."""
        key = f"{self._prefix}/{name}"
        local = self._store.local(key)
        if local is not None:
            yield local
            return
        with self._temporary() as copy:
            self._store.download(key, copy)
            yield copy

    def names(self) -> Iterable[str]:
        """List all files."""
        return [paths.last(entry.key) for entry in self._store.list(self._prefix)]

    @contextmanager
    def _temporary(self) -> Iterator[Path]:
        """A name for a file on the disk, which is deleted at the end of the block."""
        path = self._disk / f"part-{secrets.token_hex(8)}"
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)


class StoreCheckpointFolder(ReadFolder):
    """The folder of the training that a request asks for.

    Refuses to write for an attempt that another has replaced: a frozen attempt that wakes up must not write between the
    checkpoints of its successor.
    """

    def __init__(self, store: Store, request: StageRequest, disk: Path, *, names_training: bool = True) -> None:
        """names_training: whether it says which training wrote it; of several processes one does."""
        name, stage = request.spec.name, request.stage
        super().__init__(store, paths.checkpoints(name, stage, request.resume_key, request.fingerprint), disk)
        self._request = request
        self._lease = paths.lease(name, stage, request.fingerprint)
        self._has_origin = not names_training

    def put(self, name: str, data: bytes) -> None:
        """Write a small file durably; replace the old one. Raises RatchetError if another attempt holds the lease."""
        self._begin_to_write()
        self._replace(name, data)

    def write(self, name: str, content: Callable[[BinaryIO], None]) -> None:
        """Write a large file durably, with the bytes that `content` writes: first on the disk, then in the store.

        Raises RatchetError if another attempt holds the lease.
        """
        with self._temporary() as path:
            with path.open("xb") as file:
                content(file)
            self._begin_to_write()
            self._store.upload(path, f"{self._prefix}/{name}")

    @override
    def names(self) -> Iterable[str]:
        """List all files; none of what a collection deletes, which begins with the origin.

        The origin is written again before, so that a collection that saw it as old leaves the folder alone.
        """
        return super().names() if self._has_origin or self._renew_origin() else ()

    def remove(self, name: str) -> None:
        """Remove a file if it exists. Raises RatchetError if another attempt holds the lease."""
        self._check_lease()
        self._store.delete(f"{self._prefix}/{name}")

    def others(self) -> Sequence[ReadFolder]:
        """The folders of other trainings with the same resume key."""
        return [
            ReadFolder(self._store, prefix, self._disk)
            for prefix in _folders(self._store, self._shared)
            if prefix != self._prefix
        ]

    def why_fresh(self) -> str:
        """Why a training of this date begins with step 0 although another has checkpoints; empty if there is none."""
        request = self._request
        root = paths.checkpoints(request.spec.name, request.stage)
        origins = sorted(
            (entry for entry in self._store.list(root) if paths.last(entry.key) == ORIGIN),
            key=lambda entry: entry.modified_ns,
            reverse=True,
        )
        for entry in origins[:_MOST_READ]:
            try:
                origin = read_document(self._store, entry.key, CheckpointOrigin)
            except (FileNotFoundError, CorruptArtifact, OtherRelease):
                continue
            changed = differences(mathematics(origin.parts), mathematics(request.parts))
            if origin.data_date == request.data_date and changed:
                more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
                return f"run {origin.run_id} computed something else: {'; '.join(changed[:_SHOWN])}{more}"
        return ""

    @property
    def _shared(self) -> str:
        request = self._request
        return paths.checkpoints(request.spec.name, request.stage, request.resume_key)

    def _begin_to_write(self) -> None:
        self._check_lease()
        if not self._has_origin:
            self._replace(ORIGIN, self._origin())
            self._has_origin = True

    def _renew_origin(self) -> bool:
        """Whether there was one, and nobody deleted it meanwhile."""
        key = f"{self._prefix}/{ORIGIN}"
        entry = self._store.head(key)
        if entry is None:
            return False
        self._check_lease()
        self._has_origin = self._store.replace(key, self._origin(), expected=entry.etag)
        return self._has_origin

    def _origin(self) -> bytes:
        request = self._request
        origin = CheckpointOrigin(run_id=request.run_id, data_date=request.data_date, parts=request.parts)
        return origin.model_dump_json().encode()

    def _check_lease(self) -> None:
        request = self._request
        holder = holder_of(self._store, self._lease)
        if holder is not None and holder.attempt != request.attempt:
            raise RatchetError(
                f"attempt {holder.attempt} has replaced this one, {request.attempt}",
                remedy=f"wait for attempt {holder.attempt}",
            )

    def _replace(self, name: str, data: bytes) -> None:
        key = f"{self._prefix}/{name}"
        entry = self._store.head(key)
        if not self._store.replace(key, data, expected=entry.etag if entry else None):
            raise RatchetError(
                f"{key}: another training writes under the same fingerprint", remedy="stop one of the two trainings"
            )


def delete_checkpoints(store: Store, pipeline: str, run_id: str, result: StageResult) -> None:
    """Delete what a published training does not need any more: its own checkpoints, and those of its run's other tries.

    Another run that computes the same keeps its own: it may wait for its next try.
    """
    shared = paths.checkpoints(pipeline, result.stage, resume_key(result.parts))
    for folder in _folders(store, shared):
        if paths.last(folder) == result.fingerprint or _run_of(store, folder) == run_id:
            _delete(store, folder)


def _run_of(store: Store, folder: str) -> str | None:
    """The run that wrote a folder, if that is known."""
    try:
        return read_document(store, f"{folder}/{ORIGIN}", CheckpointOrigin).run_id
    except (FileNotFoundError, CorruptArtifact, OtherRelease):
        return None


def _delete(store: Store, folder: str) -> None:
    keys = [entry.key for entry in store.list(folder)]
    for key in sorted(keys, key=lambda key: not key.endswith(".json")):  # a document first: then it does not exist
        store.delete(key)


def _folders(store: Store, prefix: str) -> list[str]:
    """The prefixes of the folders below one, each once."""
    return list(dict.fromkeys(entry.key.rpartition("/")[0] for entry in store.list(prefix)))
