"""The scheduler is killed while a stage runs: it comes back, and the run ends with each output published once."""

import os
import signal

import pytest

from tests.faults.supervised import FaultInstallation

pytestmark = [pytest.mark.airflow, pytest.mark.heavy, pytest.mark.xdist_group("faulted")]
PIPELINE = "scheduler-killed"


def test_a_run_survives_the_death_of_the_scheduler(faulted: FaultInstallation) -> None:
    run_id = faulted.night(PIPELINE)
    faulted.until_ticking(PIPELINE, run_id)
    before = faulted.server("scheduler")
    assert before.process is not None
    os.kill(before.process.pid, signal.SIGKILL)
    after = faulted.running("scheduler", restarts=before.restarts + 1)
    assert after.cause.startswith("it was ended by SIGKILL")
    faulted.ended_once(PIPELINE, run_id)
