"""The checkpoints of a training in the store: a folder that only the current attempt may write."""

from collections.abc import Iterable

from ratchet.contracts import paths
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.request import StageRequest
from ratchet.store.base import Store
from ratchet.store.lease import holder_of


class StoreCheckpointFolder:
    """A folder of the store that holds the checkpoints of one fingerprint.

    Refuses to write for an attempt that another has replaced: a frozen attempt that wakes up must not write between the
    checkpoints of its successor.
    """

    def __init__(self, store: Store, request: StageRequest) -> None:
        self._store = store
        self._attempt = request.attempt
        self._prefix = paths.checkpoints(request.spec.name, request.fingerprint)
        self._lease = paths.lease(request.spec.name, request.stage, request.fingerprint)

    def put(self, name: str, data: bytes) -> None:
        """Write a file durably; replace the old one. Raises RatchetError if another attempt holds the lease."""
        holder = holder_of(self._store, self._lease)
        if holder is not None and holder.attempt != self._attempt:
            raise RatchetError(
                f"attempt {holder.attempt} has replaced this one, {self._attempt}",
                remedy=f"wait for attempt {holder.attempt}",
            )
        key = f"{self._prefix}/{name}"
        entry = self._store.head(key)
        if not self._store.replace(key, data, expected=entry.etag if entry else None):
            raise RatchetError(
                f"{key}: another training writes under the same fingerprint", remedy="stop one of the two trainings"
            )

    def get(self, name: str) -> bytes:
        """Read a file. Raises FileNotFoundError."""
        return self._store.read(f"{self._prefix}/{name}")

    def names(self) -> Iterable[str]:
        """List all files."""
        return [paths.last(entry.key) for entry in self._store.list(self._prefix)]

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        self._store.delete(f"{self._prefix}/{name}")
