"""Clearing up after crashed and beaten attempts."""

import time

from ratchet.contracts.result import Published
from ratchet.store.base import Store
from ratchet.store.publishing import SUPERSEDED, published, read_manifest


def collect(store: Store, prefix: str, *, older_than_s: float) -> list[str]:
    """Delete what crashed or beaten attempts left under a prefix. Keys of what went.

    Only what is older than any running attempt can be may be deleted. Runs that were made before a rebuild read what
    its superseded manifests name, so that stays too. Raises CorruptArtifact, and deletes nothing, if a manifest that
    says what is in use is damaged.
    """
    found = published(store, prefix)
    kept = [read_manifest(store, entry.key) for entry in list(store.list(f"{prefix}/{SUPERSEDED}"))]
    used = {key for one in [*kept, *([found] if found else [])] for key in _named(one)}
    before = time.time_ns() - int(older_than_s * 1e9)
    gone = [entry.key for entry in list(store.list(prefix)) if entry.key not in used and entry.modified_ns <= before]
    for key in gone:
        store.delete(key)
    store.sweep(prefix, older_than_s=older_than_s)
    return gone


def _named(found: Published) -> set[str]:
    return {found.key, *(artifact.key for artifact in found.result.outputs.values())}
