"""What every test may use."""

import gc
import os

import pytest
from hypothesis import settings

from tests.airflow.installation import RUNNING
from tests.airflow.shared import airflow, webhook
from tests.docker_engine import stage_image, team_images
from tests.faults.supervised import faulted
from tests.mlflow_server import mlflow_database, mlflow_server
from tests.s3 import s3, s3_server, s3_uri, store_uri

# What all tests import makes hundreds of thousands of objects that stay; to look at them as often as usual takes a fifth
# of the time.
gc.set_threshold(50_000)

# A busy machine is no bug, so there is no deadline; CI tries the same examples each time.
settings.register_profile("ratchet", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("ratchet")


def pytest_collection_finish() -> None:
    """What is imported by now stays, so it is not looked at again either."""
    gc.freeze()


_SERVERS = {"s3_server", "mlflow_server", "mlflow_database", "store_uri"}


@pytest.hookimpl(tryfirst=True)  # before groups become part of the tests' names
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a server of S3's or MLflow's, and let one worker run it: each server takes ten seconds to start."""
    for item in items:
        if isinstance(item, pytest.Function) and _SERVERS & set(item.fixturenames):
            item.add_marker(pytest.mark.server)
            if not _groups(item):
                item.add_marker(pytest.mark.xdist_group("servers"))


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End a group's Airflow once its last test has run here: one that nobody needs takes a third of a core."""
    if hasattr(item.config, "workerinput") and (nextitem is None or _groups(nextitem) != _groups(item)):
        for running in list(RUNNING):
            running.stop()


def _groups(item: pytest.Item) -> list[tuple[object, ...]]:
    return [mark.args for mark in item.iter_markers("xdist_group")]


__all__ = [
    "airflow",
    "faulted",
    "mlflow_database",
    "mlflow_server",
    "s3",
    "s3_server",
    "s3_uri",
    "stage_image",
    "store_uri",
    "team_images",
    "webhook",
]
