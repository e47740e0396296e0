"""One night that outlives them all: the API server killed and away, or hung; the database locked; the scheduler killed.

Each strikes while a later stage runs than the one before it; the last waits for the end.
"""

import os
import signal
import sqlite3
import time
from contextlib import closing

import pytest

from tasks.supervision import processes
from tasks.supervision.state import read
from tests.faults.supervised import OUTAGES, Faulted

pytestmark = [pytest.mark.airflow, pytest.mark.docker, pytest.mark.heavy, pytest.mark.xdist_group("faulted")]
AWAY_S = (30, 120)
SILENT_S = 30
LOCKED_S = 20


@pytest.fixture(scope="module")
def run_id(faulted: Faulted) -> str:
    """The night, under way."""
    return faulted.night(OUTAGES)


def test_17_the_api_server_is_killed_and_stays_away_twice(faulted: Faulted, run_id: str) -> None:
    faulted.until_running(OUTAGES, run_id, "features")
    known = read(faulted.home)
    assert known is not None
    for away_s in AWAY_S:
        before = faulted.server("api-server")
        assert before.process is not None
        os.kill(known.supervisor.pid, signal.SIGSTOP)  # or the server would be back at once
        try:
            os.kill(before.process.pid, signal.SIGKILL)
            time.sleep(away_s)  # the fault itself
        finally:
            os.kill(known.supervisor.pid, signal.SIGCONT)
        faulted.running("api-server", restarts=before.restarts + 1)


def test_17_the_api_server_hangs(faulted: Faulted, run_id: str) -> None:
    faulted.until_running(OUTAGES, run_id, "train")
    served = faulted.server("api-server").process
    assert served is not None
    hung = processes.members({served.pid})
    for pid in hung:
        os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(SILENT_S)  # the fault itself
    finally:
        for pid in hung:
            os.kill(pid, signal.SIGCONT)


def test_18_the_database_is_locked(faulted: Faulted, run_id: str) -> None:
    faulted.until_running(OUTAGES, run_id, "train")
    with closing(sqlite3.connect(faulted.services.airflow_home / "airflow.db", timeout=60)) as other:
        other.execute("BEGIN EXCLUSIVE")
        time.sleep(LOCKED_S)  # the fault itself
        other.rollback()


def test_16_the_scheduler_is_killed(faulted: Faulted, run_id: str) -> None:
    faulted.until_running(OUTAGES, run_id, "evaluate")
    before = faulted.server("scheduler")
    assert before.process is not None
    os.kill(before.process.pid, signal.SIGKILL)
    after = faulted.running("scheduler", restarts=before.restarts + 1)
    assert after.cause.startswith("it was ended by SIGKILL")


def test_the_night_ends_with_each_output_published_once(faulted: Faulted, run_id: str) -> None:
    faulted.ended_once(OUTAGES, run_id)
    known = read(faulted.home)
    assert known is not None
    # Those that were killed, and no other: half a minute of silence or of a lock is no reason to.
    restarted = {server.name: server.restarts for server in known.servers if server.restarts}
    assert restarted == {"api-server": len(AWAY_S), "scheduler": 1}
