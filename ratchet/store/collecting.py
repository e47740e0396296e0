"""Clearing up after crashed and beaten attempts."""

import time

from ratchet.store.base import Store
from ratchet.store.publishing import published


def collect(store: Store, prefix: str, *, older_than_s: float) -> list[str]:
    """Delete what crashed or beaten attempts left under a prefix. Keys of what went.

    Only what is older than any running attempt can be may be deleted. Raises CorruptArtifact, and deletes nothing, if
    the manifest that says what is in use is damaged.
    """
    found = published(store, prefix)
    used = {artifact.key for artifact in found.result.outputs.values()} | {found.key} if found else set()
    before = time.time_ns() - int(older_than_s * 1e9)
    gone = [entry.key for entry in list(store.list(prefix)) if entry.key not in used and entry.modified_ns <= before]
    for key in gone:
        store.delete(key)
    store.sweep(prefix, older_than_s=older_than_s)
    return gone
