"""Trainings are left to the triggerer: it is killed, one is marked as failed, one is a rebuild. None loses anything."""

import os
import signal
from typing import Any

import psutil
import pytest

from ratchet.contracts import summaries
from ratchet.contracts.labels import Label
from ratchet.runners.docker import DockerRunner
from ratchet.store.opening import open_store
from ratchet_airflow.task_of import REPRODUCE_DAG, REPRODUCE_TASK
from tests.airflow.installation import ENDED, RUNS_S, ticks
from tests.faults.supervised import DEFER_S, TICKS, FaultInstallation
from tests.saved_checkpoints import saved_checkpoints

pytestmark = [pytest.mark.airflow, pytest.mark.docker, pytest.mark.heavy, pytest.mark.xdist_group("faulted")]
KILLED, MARKED = "triggerer-killed", "marked-deferred"


@pytest.fixture(scope="module")
def left(faulted: FaultInstallation) -> dict[str, tuple[str, str]]:
    """Both run, each left to the triggerer, which has passed a line on: their runs and containers."""
    runs, containers = dict[str, str](), dict[str, str]()
    for pipeline in (MARKED, KILLED):  # the training of the first one lasts until a person ends it
        runs[pipeline] = run_id = faulted.night(pipeline)
        containers[pipeline] = faulted.until_ticking(pipeline, run_id)

        def state(pipeline: str = pipeline, run_id: str = run_id) -> str:
            found = str(faulted.api.tasks(pipeline, run_id)["train"]["state"])
            assert found not in ENDED
            return found

        faulted.until(lambda: state() == "deferred", seconds=3 * DEFER_S)
    return {pipeline: (runs[pipeline], containers[pipeline]) for pipeline in runs}


def test_marked_as_failed_while_it_is_deferred_it_saves_and_goes(
    faulted: FaultInstallation, left: dict[str, tuple[str, str]]
) -> None:
    run_id, container = left[MARKED]
    before = ticks(faulted.log(MARKED, run_id, "train"))
    faulted.until(lambda: len(ticks(faulted.log(MARKED, run_id, "train"))) > len(before), seconds=180)
    path = f"/dags/{MARKED}/dagRuns/{run_id.replace('+', '%2B')}"
    faulted.api.call("PATCH", f"{path}/taskInstances/train", {"new_state": "failed"})
    faulted.until(lambda: container not in faulted.containers(MARKED, run_id), seconds=180)
    assert saved_checkpoints(open_store(str(faulted.services.store)), f"checkpoints/{MARKED}")
    assert "train" not in faulted.outcomes(MARKED, run_id)
    assert faulted.api.tasks(MARKED, run_id)["train"]["state"] == "failed"


def test_the_triggerer_is_killed_and_the_same_try_goes_on_with_the_same_container(
    faulted: FaultInstallation, left: dict[str, tuple[str, str]]
) -> None:
    run_id, container = left[KILLED]
    before = faulted.server("triggerer")
    assert before.process is not None
    for process in [*psutil.Process(before.process.pid).children(recursive=True), psutil.Process(before.process.pid)]:
        os.kill(process.pid, signal.SIGKILL)
    assert faulted.containers(KILLED, run_id) == [container]
    assert DockerRunner().status(container).running
    name = DockerRunner().labels(container)[Label.ATTEMPT]
    faulted.running("triggerer", restarts=before.restarts + 1)
    faulted.published_once(KILLED, run_id)
    assert faulted.containers(KILLED, run_id) == []
    assert faulted.api.tasks(KILLED, run_id)["train"]["try_number"] == 1
    outcome = faulted.outcomes(KILLED, run_id)["train"]
    assert outcome.result is not None
    assert (outcome.cached, outcome.result.attempt) == (False, name)
    assert outcome.seconds > DEFER_S
    assert summaries.trained(outcome.result).resumed_from is None
    heard = ticks(faulted.log(KILLED, run_id, "train"))
    assert len(heard) > TICKS
    assert sorted(heard) == list(range(1, len(heard) + 1))  # none lost, none twice
    assert outcome.log is not None
    stored = open_store(str(faulted.services.store)).read(outcome.log).decode()
    assert ticks(stored) == sorted(heard)


def test_a_rebuild_of_the_version_is_left_as_well_and_its_same_try_says_that_it_is_bit_equal(
    faulted: FaultInstallation, left: dict[str, tuple[str, str]]
) -> None:
    faulted.published_once(KILLED, left[KILLED][0])
    run_id = faulted.trigger(REPRODUCE_DAG, model=KILLED, version="1")

    def task() -> dict[str, Any]:
        found: dict[str, Any] = faulted.api.tasks(REPRODUCE_DAG, run_id).get(REPRODUCE_TASK, {})
        return found

    def deferred() -> bool:
        assert task().get("state") not in ENDED, faulted.log(REPRODUCE_DAG, run_id, REPRODUCE_TASK)
        return task().get("state") == "deferred"

    faulted.until(deferred, seconds=300 + DEFER_S)
    states = faulted.wait(REPRODUCE_DAG, run_id, seconds=RUNS_S)
    log = faulted.log(REPRODUCE_DAG, run_id, REPRODUCE_TASK)
    assert states["run"] == "success", log
    assert task()["try_number"] == 1
    assert "it runs for long: the triggerer follows its container from here on" in log
    assert "going on after the triggerer: it has ended" in log
    assert "features: an earlier process of this rebuild computed it" in log
    assert f"bit-equal: weights and held-out scores of {KILLED} version 1 have the same bits" in log
    heard = ticks(log)
    assert sorted(heard) == list(range(1, len(heard) + 1))  # none lost, none twice
    store = open_store(str(faulted.services.store))
    (report,) = [entry.key for entry in store.list(f"runs/{KILLED}") if entry.key.endswith("reproduction-report.json")]
    assert DockerRunner().find({Label.RUN: report.split("/")[2]}) == []
