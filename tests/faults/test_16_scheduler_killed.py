"""The scheduler is killed as a run begins and while a stage runs: it comes back, and each output is published once."""

import os
import signal

import pytest

from tests.faults.supervised import FaultInstallation

pytestmark = [pytest.mark.airflow, pytest.mark.heavy, pytest.mark.xdist_group("faulted")]
PIPELINE = "scheduler-killed"


def test_a_run_survives_the_death_of_the_scheduler(faulted: FaultInstallation) -> None:
    run_id = faulted.night(PIPELINE)
    kill(faulted)
    faulted.until_ticking(PIPELINE, run_id)
    kill(faulted)
    faulted.ended_once(PIPELINE, run_id)


def kill(faulted: FaultInstallation) -> None:
    """Kill the scheduler, and wait until it runs again."""
    before = faulted.server("scheduler")
    assert before.process is not None
    os.kill(before.process.pid, signal.SIGKILL)
    after = faulted.running("scheduler", restarts=before.restarts + 1)
    assert after.cause.startswith("it was ended by SIGKILL")
