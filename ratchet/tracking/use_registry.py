"""Opens the registry of an installation, without MLflow's import wherever that is possible."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ratchet.contracts import paths
from ratchet.contracts.environment import variable
from ratchet.contracts.errors import RatchetError, Unavailable
from ratchet.store.base import Store
from ratchet.store.file import FileStore
from ratchet.store.memory import MemoryStore
from ratchet.tracking.addresses import ARTIFACTS, rebase
from ratchet.tracking.client_registry import ClientRegistry
from ratchet.tracking.database import edit_in_bucket
from ratchet.tracking.file_registry import open_file
from ratchet.tracking.memory_registry import MemoryRegistry
from ratchet.tracking.mlflow import track
from ratchet.tracking.registry import Registry
from ratchet.tracking.rest_registry import RestRegistry

_T = TypeVar("_T")


def use_registry(store: Store, tracking_uri: str | None, scratch: Path, work: Callable[[Registry], _T]) -> _T:
    """Do work with the registry. `work` may be called several times, and has to find the results of an earlier call.

    Without a tracking URI, it is beside the store's data. Raises Unavailable if it does not answer.
    """
    if tracking_uri is not None and tracking_uri.startswith(("http://", "https://")):
        return work(RestRegistry(tracking_uri))
    if tracking_uri is None and isinstance(store, MemoryStore):
        return work(MemoryRegistry.of(store.uri))
    if tracking_uri is None and isinstance(store, FileStore):
        return _in_file(store, store.root / paths.tracking_database(), scratch, work)
    if tracking_uri is None:
        return edit_in_bucket(store, scratch, lambda path: _in_file(store, path, scratch, work))
    return _through_client(store, tracking_uri, scratch, work)


def _in_file(store: Store, path: Path, scratch: Path, work: Callable[[Registry], _T]) -> _T:
    address = f"{store.uri}/{paths.tracking_database()}"
    if not path.exists():
        return work(MemoryRegistry(address))  # nothing was tracked yet
    rebase(path, f"{store.uri}/{ARTIFACTS}")
    with open_file(path, address) as registry:
        if registry is not None:
            return work(registry)
    return _through_client(store, None, scratch, work)


def _through_client(store: Store, tracking_uri: str | None, scratch: Path, work: Callable[[Registry], _T]) -> _T:
    try:
        return track(store, tracking_uri, scratch, lambda tracker: work(ClientRegistry(tracker)))
    except RatchetError:
        raise
    except Exception as error:
        raise Unavailable(
            f"the registry cannot be asked: {type(error).__name__}: {str(error)[:200]}",
            remedy=f"check {variable('tracking_uri')}, and that MLflow is installed here; run again",
        ) from error
