"""Where a training keeps its checkpoints: a folder of the store, for the attempt that trains now and for no other."""

from collections.abc import Iterable

from ratchet.contracts import paths
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.request import StageRequest
from ratchet.store.base import Store
from ratchet.store.lease import holder_of


class StoreShelf:
    """A folder of the store as the place of checkpoints.

    Refuses what an attempt saves that another has succeeded: one that was frozen and woke up must not write between the
    checkpoints of its successor.
    """

    def __init__(self, store: Store, request: StageRequest) -> None:
        self._store = store
        self._attempt = request.attempt
        self._prefix = paths.checkpoints(request.spec.name, request.fingerprint)
        self._lease = paths.lease(request.spec.name, request.stage, request.fingerprint)

    def put(self, name: str, data: bytes) -> None:
        """Write a file durably, over what is there."""
        holder = holder_of(self._store, self._lease)
        if holder is not None and holder.attempt != self._attempt:
            raise RatchetError(f"attempt {holder.attempt} trains this now", remedy="nothing: this one came too late")
        key = f"{self._prefix}/{name}"
        entry = self._store.head(key)
        if not self._store.replace(key, data, expected=entry.etag if entry else None):
            raise RatchetError(f"{key}: somebody else is training under the same fingerprint", remedy="let one finish")

    def get(self, name: str) -> bytes:
        """Read a file. Raises FileNotFoundError."""
        return self._store.read(f"{self._prefix}/{name}")

    def names(self) -> Iterable[str]:
        """All files."""
        return [entry.key.rpartition("/")[2] for entry in self._store.list(self._prefix)]

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        self._store.delete(f"{self._prefix}/{name}")
