"""An MLflow database that is made once, and a real MLflow server: both take seconds to come up."""

import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ratchet.store.base import Store
from ratchet.store.file import FileStore
from ratchet.tracking.mlflow import track
from tests.ports import hold, number
from tests.waiting import until

DATABASE = "mlflow/mlflow.db"


@pytest.fixture(scope="session")
def mlflow_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with MLflow's tables and nothing in them. To be copied."""
    folder = tmp_path_factory.mktemp("mlflow-database")
    store = FileStore(folder)
    track(store, None, folder, lambda tracker: tracker.client.search_registered_models())
    return folder / DATABASE


@pytest.fixture(scope="session")
def mlflow_server(mlflow_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real MLflow server on loopback."""
    folder = tmp_path_factory.mktemp("mlflow-server")
    shutil.copyfile(mlflow_database, folder / "mlflow.db")
    held = hold()
    port = number(held)
    log = (folder / "log").open("wb")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
            *("--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", str(folder / "files")),
        ],
        stdout=log,
        stderr=log,
        env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        start_new_session=True,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        until(lambda: process.poll() is not None or _answers(address), seconds=240)
        if process.poll() is not None:
            pytest.fail((folder / "log").read_text(errors="replace")[-2000:])
        yield address
    finally:
        os.killpg(process.pid, 9)
        process.wait()
        log.close()
        held.close()


def prepare(store: Store, database: Path) -> Store:
    """Give a store MLflow's tables."""
    store.prepare()
    store.upload(database, DATABASE)
    return store


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
