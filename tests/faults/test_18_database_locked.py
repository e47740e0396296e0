"""Somebody else holds Airflow's SQLite database while a run is under way: everyone waits, the run completes.

For 10 s from the run's beginning, where tasks start; and from the middle of a training over its end. Nobody asks the
database in between but the heartbeats, and a task by way of the API server, see fault 17.
"""

import sqlite3
import time
from contextlib import closing

import pytest

from tests.faults.supervised import FaultInstallation

pytestmark = [pytest.mark.airflow, pytest.mark.heavy, pytest.mark.xdist_group("faulted")]
PIPELINE = "database-locked"
AT_START_S, AT_END_S = 10, 20


def test_a_run_survives_a_locked_database(faulted: FaultInstallation) -> None:
    run_id = faulted.night(PIPELINE)
    before = {name: faulted.server(name).restarts for name in ("scheduler", "api-server", "dag-processor")}
    lock(faulted, AT_START_S)
    faulted.until_ticking(PIPELINE, run_id)
    lock(faulted, AT_END_S)
    faulted.ended_once(PIPELINE, run_id)
    assert {name: faulted.server(name).restarts for name in before} == before


def lock(faulted: FaultInstallation, seconds: float) -> None:
    """The fault itself."""
    with closing(sqlite3.connect(faulted.services.airflow_home / "airflow.db", timeout=60)) as other:
        other.execute("BEGIN EXCLUSIVE")
        time.sleep(seconds)
        other.rollback()
