"""MLflow's SQLite file where there is no server: in a folder store a file, in a bucket an object that is replaced.

A change here violates the promise of the project when two writers of one bucket can lose each other's runs.
"""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ratchet.contracts import paths
from ratchet.contracts.errors import NoAnswer
from ratchet.store.base import Store

_T = TypeVar("_T")
_TRIES = 8
_WAIT_S = 0.2  # the longest wait after the first conflict; it doubles after each further one


def edit_in_bucket(store: Store, scratch: Path, work: Callable[[Path], _T]) -> _T:
    """Do work with a local copy of the bucket's database, and upload it if it changed and nobody else replaced it.

    work: gets the path of the copy, which does not exist where the bucket has none; it may be called several times.
    Raises NoAnswer if other writers keep writing: they end by themselves.
    """
    key = paths.tracking_database()
    for attempt in range(_TRIES):
        # Each try has its own file, because MLflow keeps the connections to an address until the process ends.
        database = scratch / f"mlflow-{attempt}-{random.getrandbits(32):08x}.db"
        entry = store.head(key)
        if entry:
            store.download(key, database)
        before = database.read_bytes() if entry else b""
        done = work(database)
        after = database.read_bytes() if database.exists() else b""
        database.unlink(missing_ok=True)
        if after == before or store.replace(key, after, expected=entry.etag if entry else None):
            return done
        time.sleep(random.uniform(0, _WAIT_S * 2**attempt))
    raise NoAnswer(
        f"{store.uri}/{key}: other writers kept writing to it",
        remedy="run fewer runs at once, or use an MLflow server; run again if no retry follows",
    )
