"""Somebody else holds Airflow's SQLite database for 20 s while a run is under way: everyone waits, the run completes."""

import sqlite3
import time
from contextlib import closing

import pytest

from tests.faults.supervised import FaultInstallation

pytestmark = [pytest.mark.airflow, pytest.mark.heavy, pytest.mark.xdist_group("faulted")]
PIPELINE = "database-locked"
LOCKED_S = 20


def test_a_run_survives_a_locked_database(faulted: FaultInstallation) -> None:
    run_id = faulted.night(PIPELINE)
    faulted.until_ticking(PIPELINE, run_id)
    before = {name: faulted.server(name).restarts for name in ("scheduler", "api-server", "dag-processor")}
    with closing(sqlite3.connect(faulted.services.airflow_home / "airflow.db", timeout=60)) as other:
        other.execute("BEGIN EXCLUSIVE")
        time.sleep(LOCKED_S)  # the fault itself
        other.rollback()
    faulted.ended_once(PIPELINE, run_id)
    assert {name: faulted.server(name).restarts for name in before} == before
