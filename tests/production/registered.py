"""A folder store with real versions in MLflow's file, and a ledger beside it."""

import shutil
import tempfile
from functools import cache
from pathlib import Path

from ratchet.contracts import paths
from ratchet.contracts.fingerprint import digest
from ratchet.store.file import FileStore
from ratchet.store.ledger import Record, append
from ratchet.tracking.mlflow import Tracker, track
from ratchet.tracking.registry import DIGEST
from tests.store.test_ledger import change

MODEL = "ranker"
NAMES = "abc"
"""Versions 1, 2 and 3 hold these models; nothing names one as champion."""


def tagged(name: str) -> dict[str, str]:
    """The tags of the version of a model."""
    return {DIGEST: digest(name.encode())}


def register(tracker: Tracker) -> None:
    """Make the versions."""
    tracker.client.create_registered_model(MODEL)
    run = tracker.client.create_run(tracker.experiment(MODEL)).info
    for name in NAMES:
        tracker.client.create_model_version(MODEL, f"{run.artifact_uri}/model", run.run_id, tags=tagged(name))


@cache
def database() -> bytes:
    """MLflow's file with the versions."""
    with tempfile.TemporaryDirectory() as folder:
        store = FileStore(Path(folder))
        track(store, None, Path(folder), register)
        return store.read(paths.tracking_database())


def registered(folder: Path) -> FileStore:
    """A new store with the versions and an empty ledger."""
    store = FileStore(folder)
    store.prepare()
    path = store.root / paths.tracking_database()
    path.parent.mkdir()
    path.write_bytes(database())
    return store


def promote(store: FileStore, name: str, *, after: int) -> Record:
    """Record a version as champion; the alias stays where it is."""
    version = str(NAMES.index(name) + 1)
    return append(store, change(version, 10, model=MODEL, model_digest=digest(name.encode())), after=after)


def copied(store: FileStore, folder: Path) -> FileStore:
    """The same store elsewhere."""
    shutil.copytree(store.root, folder)
    return FileStore(folder)
