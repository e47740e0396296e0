"""Deletes the files that crashed and superseded attempts left.

Of one result. Tests of crashes call it, to show that what a crash leaves can be deleted; `ratchet gc` looks at a whole
store.
"""

import time

from ratchet.contracts import paths
from ratchet.contracts.result import PublishedResult
from ratchet.store.base import Store
from ratchet.store.publishing import find_result, read_manifest


def collect(store: Store, prefix: str, *, older_than_s: float) -> list[str]:
    """Delete the files that crashed or superseded attempts left under a prefix. Returns the keys of deleted files.

    older_than_s: more than the age of any running attempt. Files that a superseded manifest names stay, because runs
    before the rebuild read them. Raises CorruptArtifact, and deletes nothing, if a manifest that names files in use is
    damaged.
    """
    found = find_result(store, prefix)
    kept = [read_manifest(store, entry.key) for entry in list(store.list(paths.superseded(prefix)))]
    used = {key for one in [*kept, *([found] if found else [])] for key in _keys(one)}
    before = time.time_ns() - int(older_than_s * 1e9)
    gone = [entry.key for entry in list(store.list(prefix)) if entry.key not in used and entry.modified_ns <= before]
    for key in gone:
        store.delete(key)
    store.sweep(prefix, older_than_s=older_than_s)
    return gone


def _keys(found: PublishedResult) -> set[str]:
    return {found.key, *(artifact.key for artifact in found.result.outputs.values())}
