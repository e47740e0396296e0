"""MLflow behind one seam: where runs and versions are kept, and how to write to them without losing or doubling any.

With a tracking URI it is a server's business. Without one they live in the store: a SQLite file and a folder of
artifacts in a folder store; in an S3 store the same file, brought here, written to, and put back only if nobody else
has put back another meanwhile.

A change here violates the promise of the project when two writers of one store can lose each other's runs.
"""

import logging
import os
import random
import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.store.base import Store
from ratchet.store.disk import lock_folder, make_folders
from ratchet.store.file import FileStore

_T = TypeVar("_T")
_DATABASE = "mlflow.db"
_PASSWORD = re.compile(r"//[^/@\s]*@")
_TRIES = 8
_WAIT_S = 0.2  # at most, after the first conflict; twice as long after each further one
_LOCK_TRIES = 6  # of 30 s each: a first migration takes seconds, and many pipelines may start at once
# No statistics sent, no git looked for, no bars drawn, and an answer within seconds or none.
_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "_MLFLOW_TELEMETRY_PRE_WARM_DATABRICKS_SDK": "false",
    "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false",
    "MLFLOW_RECORD_ENV_VARS_IN_MODEL_LOGGING": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_CONFIGURE_LOGGING": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
}
_NO_ANSWER = frozenset({"TEMPORARILY_UNAVAILABLE", "INTERNAL_ERROR", "REQUEST_LIMIT_EXCEEDED", "DEADLINE_EXCEEDED"})


@dataclass(frozen=True, kw_only=True)
class Tracker:
    """A way to MLflow. client: an MlflowClient. address: for people. artifacts: where new experiments keep theirs."""

    client: Any
    address: str
    artifacts: str | None = None

    def experiment(self, name: str) -> str:
        """The id of an experiment, made if it is not there."""
        from mlflow.exceptions import MlflowException

        found = self.client.get_experiment_by_name(name)
        if found is None:
            try:
                location = f"{self.artifacts}/{name}" if self.artifacts else None
                return str(self.client.create_experiment(name, artifact_location=location))
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
                found = self.client.get_experiment_by_name(name)
        if found.lifecycle_stage == "deleted":
            self.client.restore_experiment(found.experiment_id)
        return str(found.experiment_id)

    def run(self, experiment: str, *, tag: str, value: str, name: str) -> str:
        """The id of the run that bears a tag, made if it is not there. However many writers ask, they get the same."""
        found = self._runs(experiment, tag, value)
        if not found:
            made = self.client.create_run(experiment, run_name=name, tags={tag: value}).info.run_id
            found = self._runs(experiment, tag, value)
            if found and made != found[0]:
                self.client.delete_run(made)
        return found[0]

    def _runs(self, experiment: str, tag: str, value: str) -> list[str]:
        quoted = value.replace("'", "")
        runs = self.client.search_runs([experiment], f"tags.`{tag}` = '{quoted}'", max_results=10)
        return [run.info.run_id for run in sorted(runs, key=lambda run: (run.info.start_time, run.info.run_id))]


def track(store: Store, tracking_uri: str | None, scratch: Path, work: Callable[[Tracker], _T]) -> _T:
    """Do some work with MLflow. `work` may be called several times and has to find what it did before.

    Raises Unavailable, with the address, if MLflow does not answer within seconds, or if others keep writing.
    """
    _silence_libraries()
    if tracking_uri:
        with _tracking_errors(_without_password(tracking_uri)):
            return work(_tracker(tracking_uri, artifacts=None, address=_without_password(tracking_uri)))
    if isinstance(store, FileStore):
        return _in_folder(store, work)
    if store.uri.startswith("s3://"):
        return _in_bucket(store, scratch, work)
    raise ConfigurationError(f"{store.uri}: MLflow cannot keep its data there", remedy="set MLFLOW_TRACKING_URI")


def local_uri(store: FileStore) -> str:
    """The tracking URI of a folder store without a server."""
    return f"sqlite:///{store.root / paths.tracking() / _DATABASE}"


def _in_folder(store: FileStore, work: Callable[[Tracker], _T]) -> _T:
    folder = store.root / paths.tracking()
    make_folders(folder)
    with _hold_lock(folder), _tracking_errors(str(folder)):
        try:
            return work(_tracker(local_uri(store), artifacts=(folder / "artifacts").as_uri(), address=local_uri(store)))
        finally:
            store.adopt(paths.tracking())


def _in_bucket(store: Store, scratch: Path, work: Callable[[Tracker], _T]) -> _T:
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        os.environ.setdefault("MLFLOW_S3_ENDPOINT_URL", endpoint)
    key, artifacts = f"{paths.tracking()}/{_DATABASE}", f"{store.uri}/{paths.tracking()}/artifacts"
    for attempt in range(_TRIES):
        # Each try has its own file, since MLflow keeps the connections of an address for as long as the process lives.
        database = scratch / f"mlflow-{attempt}-{random.getrandbits(32):08x}.db"
        entry = store.head(key)
        if entry:
            store.download(key, database)
        before = database.read_bytes() if entry else b""
        with _tracking_errors(f"{store.uri}/{key}"):
            done = work(_tracker(f"sqlite:///{database}", artifacts=artifacts, address=f"{store.uri}/{key}"))
        after = database.read_bytes()
        database.unlink()
        if after == before or store.replace(key, after, expected=entry.etag if entry else None):
            return done
        time.sleep(random.uniform(0, _WAIT_S * 2**attempt))
    raise Unavailable(f"{store.uri}/{key}: others kept writing to it", remedy="it is tried again; a server helps")


def _tracker(uri: str, *, artifacts: str | None, address: str) -> Tracker:
    with warnings.catch_warnings():
        # MLflow's own use of other libraries, seen when it is loaded; nothing that a reader of our log could mend.
        warnings.simplefilter("ignore", DeprecationWarning)
        from mlflow.tracking import MlflowClient

        return Tracker(client=MlflowClient(uri, uri), artifacts=artifacts, address=address)


@contextmanager
def _hold_lock(folder: Path) -> Iterator[None]:
    """Hold the folder's lock: one writer at a time, so that nobody migrates a database that another is making."""
    for left in reversed(range(_LOCK_TRIES)):
        lock = lock_folder(folder)
        try:
            lock.__enter__()
        except Unavailable:
            if not left:
                raise
        else:
            break
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


@contextmanager
def _tracking_errors(address: str) -> Iterator[None]:
    """Turn what MLflow raises when it cannot be reached into Unavailable; what it refuses stays as it is."""
    from mlflow.exceptions import MlflowException, RestException
    from requests.exceptions import RequestException

    remedy = "see that MLflow runs at this address and can be reached from here; it is tried again"
    try:
        yield
    except RequestException as error:
        raise Unavailable(f"MLflow at {address} does not answer: {type(error).__name__}", remedy=remedy) from error
    except MlflowException as error:
        unanswered = not isinstance(error, RestException) and "API request to" in str(error)
        if unanswered or (error.error_code in _NO_ANSWER and address.startswith("http")):
            said = _PASSWORD.sub("//***@", str(error).splitlines()[0]).rpartition("Caused by ")[2][:200]
            raise Unavailable(f"MLflow at {address} does not answer: {said}", remedy=remedy) from error
        raise


def _silence_libraries() -> None:
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # It misses pip in images that have none, and says so of every model.
    logging.getLogger("mlflow.utils.environment").setLevel(logging.ERROR)


def _without_password(uri: str) -> str:
    return _PASSWORD.sub("//***@", uri)
