"""The API server is away as a run begins, and while a stage runs for 30 s and for 120 s, refusing or silent."""

import os
import signal
import time

import pytest

from local.supervision import processes
from local.supervision.state import read
from tests.faults.supervised import FaultInstallation

pytestmark = [pytest.mark.airflow, pytest.mark.heavy, pytest.mark.xdist_group("faulted")]
SILENT_S = 30
AWAY_S = (30, 120)


def test_a_run_survives_an_api_server_that_is_killed_and_stays_away_twice(faulted: FaultInstallation) -> None:
    run_id = faulted.night("server-away")
    known, begins = read(faulted.home), faulted.server("api-server")
    assert known is not None
    assert begins.process is not None
    os.kill(begins.process.pid, signal.SIGKILL)
    faulted.running("api-server", restarts=begins.restarts + 1)
    faulted.until_ticking("server-away", run_id)
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
    faulted.ended_once("server-away", run_id)


def test_a_run_survives_an_api_server_that_hangs(faulted: FaultInstallation) -> None:
    run_id = faulted.night("server-hung")
    faulted.until_ticking("server-hung", run_id)
    before = faulted.server("api-server")
    assert before.process is not None
    hung = processes.members({before.process.pid})
    for pid in hung:
        os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(SILENT_S)  # the fault itself
    finally:
        for pid in hung:
            os.kill(pid, signal.SIGCONT)
    faulted.ended_once("server-hung", run_id)
    assert faulted.server("api-server").process == before.process  # 30 s of silence are no reason to kill it
