"""The interface to MLflow: the storage of runs and versions, and writes that neither lose nor duplicate any.

With a tracking URI, a server stores them. Without one, they are in the store: a SQLite file and a folder of artifacts
in a folder store. In an S3 store, a writer downloads that file, writes to it, and uploads it if no other writer has
replaced it since.

A change here violates the promise of the project when two writers of one store can lose each other's runs.
"""

import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ratchet.contracts import paths
from ratchet.contracts.environment import environment
from ratchet.contracts.errors import ConfigurationError, NoAnswer, Unavailable
from ratchet.store.base import Store
from ratchet.store.disk import FULL, lock_folder, make_folders
from ratchet.store.file import FileStore
from ratchet.tracking.addresses import ARTIFACTS, locked, not_given, rebase
from ratchet.tracking.database import edit_in_bucket
from ratchet.tracking.rest import refused_login

_T = TypeVar("_T")
_PASSWORD = re.compile(r"//[^/@\s]*@")
_LOCK_TRIES = 6  # of 30 s each: the first migration takes seconds, and many pipelines may start at once
# Send no statistics, do not look for git, draw no progress bars, and give up on an answer after seconds.
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
_LOCKED = ("database is locked", "database table is locked")
_NO_LOGIN = frozenset({"UNAUTHENTICATED", "CUSTOMER_UNAUTHORIZED", "PERMISSION_DENIED"})


@dataclass(frozen=True, kw_only=True)
class Tracker:
    """A connection to MLflow.

    client: an MlflowClient. address: for messages. artifacts: the URI for the artifacts of new experiments.
    """

    client: Any
    address: str
    artifacts: str | None = None

    def experiment(self, name: str) -> str:
        """The id of an experiment, which is created if it does not exist."""
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
        """The id of the run with a tag, which is created if it does not exist. Concurrent writers get the same run."""
        found = self._runs(experiment, tag, value)
        if not found:
            created = self.client.create_run(experiment, run_name=name, tags={tag: value}).info.run_id
            found = self._runs(experiment, tag, value)
            if found and created != found[0]:
                self.client.delete_run(created)
        return found[0]

    def _runs(self, experiment: str, tag: str, value: str) -> list[str]:
        quoted = value.replace("'", "")
        runs = self.client.search_runs([experiment], f"tags.`{tag}` = '{quoted}'", max_results=10)
        return [run.info.run_id for run in sorted(runs, key=lambda run: (run.info.start_time, run.info.run_id))]


def track(store: Store, tracking_uri: str | None, scratch: Path, work: Callable[[Tracker], _T]) -> _T:
    """Do work with MLflow. `work` may be called several times, and has to find the results of an earlier call.

    Raises NoAnswer, with the address, if MLflow does not answer within seconds, or if other writers keep writing.
    """
    silence()
    if tracking_uri:
        with _tracking_errors(_without_password(tracking_uri)):
            return work(_tracker(tracking_uri, artifacts=None, address=_without_password(tracking_uri)))
    if isinstance(store, FileStore):
        return _in_folder(store, work)
    if store.uri.startswith("s3://"):
        return _in_bucket(store, scratch, work)
    raise ConfigurationError(f"{store.uri}: MLflow cannot store its data there", remedy="set MLFLOW_TRACKING_URI")


def silence() -> None:
    """Let MLflow draw no progress bars, send no statistics and log no hints, unless the environment says otherwise."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # In images without pip it logs a warning for every model.
    logging.getLogger("mlflow.utils.environment").setLevel(logging.ERROR)


def local_uri(store: FileStore) -> str:
    """The tracking URI of a folder store without a server."""
    return f"sqlite:///{store.root / paths.tracking_database()}"


def _in_folder(store: FileStore, work: Callable[[Tracker], _T]) -> _T:
    folder = store.root / paths.TRACKING
    make_folders(folder)
    with _hold_lock(folder), _tracking_errors(str(folder)):
        artifacts = f"{store.uri}/{ARTIFACTS}"
        rebase(store.root / paths.tracking_database(), artifacts)
        try:
            return work(_tracker(local_uri(store), artifacts=artifacts, address=local_uri(store)))
        finally:
            store.adopt(paths.TRACKING)


def _in_bucket(store: Store, scratch: Path, work: Callable[[Tracker], _T]) -> _T:
    endpoint = environment().s3_endpoint
    if endpoint:
        os.environ.setdefault("MLFLOW_S3_ENDPOINT_URL", endpoint)
    artifacts, address = f"{store.uri}/{ARTIFACTS}", f"{store.uri}/{paths.tracking_database()}"

    def on_copy(database: Path) -> _T:
        rebase(database, artifacts)
        with _tracking_errors(address):
            return work(_tracker(f"sqlite:///{database}", artifacts=artifacts, address=address))

    return edit_in_bucket(store, scratch, on_copy)


def _tracker(uri: str, *, artifacts: str | None, address: str) -> Tracker:
    with warnings.catch_warnings():
        # MLflow's import causes warnings about other libraries, which a reader of our log cannot correct.
        warnings.simplefilter("ignore", DeprecationWarning)
        from mlflow.tracking import MlflowClient

        return Tracker(client=MlflowClient(uri, uri), artifacts=artifacts, address=address)


@contextmanager
def _hold_lock(folder: Path) -> Iterator[None]:
    """Hold the folder's lock: one writer at a time, so that no process migrates a database that another creates."""
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
    """Turn errors of MLflow into ours: no answer, also of a bucket or a database, and a refused login. Others stay."""
    from mlflow.exceptions import MlflowException, RestException
    from requests.exceptions import RequestException

    remedy = "check that MLflow runs at this address and can be reached from here; run again if no retry follows"
    try:
        with _database_errors(address):
            yield
    except RequestException as error:
        raise NoAnswer(f"MLflow at {address} does not answer: {type(error).__name__}", remedy=remedy) from error
    except MlflowException as error:
        if error.error_code in _NO_LOGIN:
            raise refused_login(address, error.get_http_status_code()) from error
        unanswered = not isinstance(error, RestException) and "API request to" in str(error)
        if unanswered or (error.error_code in _NO_ANSWER and address.startswith("http")):
            cause = _PASSWORD.sub("//***@", str(error).splitlines()[0]).rpartition("Caused by ")[2][:200]
            raise NoAnswer(f"MLflow at {address} does not answer: {cause}", remedy=remedy) from error
        raise
    except Exception as error:
        if said := _said_by_bucket(error):
            what = f"MLflow's files of {address} cannot be sent: {said[:200]}"
            raise NoAnswer(what, remedy="check the bucket and its keys; run again if no retry follows") from error
        raise


def _said_by_bucket(error: Exception) -> str:
    """MLflow sends files to a bucket with a client of its own, whose errors it passes on as they are."""
    if "botocore" not in sys.modules:
        return ""
    from ratchet.store.s3_client import no_answer

    return no_answer(error)


@contextmanager
def _database_errors(address: str) -> Iterator[None]:
    """Turn an error of a disk or of a lock of a database, in MLflow, its database's library or here, into ours."""
    try:
        yield
    except Exception as error:
        found: BaseException | None = error
        while found is not None:
            if any(text in str(found) for text in _LOCKED):
                raise locked(address) from error
            if "disk I/O error" in str(found):
                raise not_given(address) from error
            if "database or disk is full" in str(found) or getattr(found, "errno", None) in FULL:
                raise Unavailable(
                    f"MLflow at {address}: the disk is full",
                    remedy="free space on the disk of MLflow's data; run again if no retry follows",
                ) from error
            found = found.__cause__ or found.__context__
        raise


def _without_password(uri: str) -> str:
    return _PASSWORD.sub("//***@", uri)
