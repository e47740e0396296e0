"""A worker and its task are killed in the middle of a training: the next try goes on with the same container.

Marking a task as failed, and clearing it, are here too: what they do to the container is the other half.
"""

import os
import signal
import time

import psutil
import pytest

from tasks.chain.history import plan_of
from tasks.contracts import documents
from tasks.runtime.store.opening import open_store
from tests.faults.supervised import PICKED_UP_S, TICKS, Faulted, ticks

pytestmark = [pytest.mark.airflow, pytest.mark.docker, pytest.mark.heavy, pytest.mark.xdist_group("faulted")]


def test_the_same_container_is_picked_up_and_its_log_goes_on_where_it_was_cut(faulted: Faulted) -> None:
    pipeline = "worker-killed"
    run_id = faulted.night(pipeline)
    container = faulted.until_ticking(pipeline, run_id)
    both = faulted.processes(pipeline, run_id)
    both[0].suspend()  # so that what it said has reached its worker, which else would die with it on the way
    time.sleep(1)  # the moment that a pipe takes
    for process in both:
        process.kill()
    killed = time.monotonic()
    faulted.second_try(pipeline, run_id)
    assert time.monotonic() - killed < PICKED_UP_S
    assert faulted.containers(pipeline, run_id) == [container]
    faulted.published_once(pipeline, run_id)
    assert faulted.containers(pipeline, run_id) == []
    result = faulted.outcomes(pipeline, run_id)["train"].result
    assert result is not None
    assert documents.trained(result).resumed_from is None  # one training, from its beginning to its end
    first, second = (ticks(faulted.log(pipeline, run_id, "train", attempt=number)) for number in (1, 2))
    assert len([*first, *second]) > TICKS
    assert [*first, *second] == list(range(1, len([*first, *second]) + 1))  # none lost, none twice


def test_a_late_attempt_that_wakes_up_after_its_successor_changes_nothing(faulted: Faulted) -> None:
    """Row 22: stopped, succeeded, continued."""
    pipeline = "late-attempt"
    run_id = faulted.night(pipeline)
    container = faulted.until_ticking(pipeline, run_id)
    both = faulted.processes(pipeline, run_id)
    for process in both:
        process.suspend()
    try:
        faulted.second_try(pipeline, run_id)
        assert faulted.containers(pipeline, run_id) == [container]
        faulted.published_once(pipeline, run_id)
        before = faulted.outcomes(pipeline, run_id)
    finally:
        for process in both:
            os.kill(process.pid, signal.SIGCONT)
    psutil.wait_procs(both[:1], timeout=60)
    assert not both[0].is_running()
    faulted.published_once(pipeline, run_id)
    assert faulted.outcomes(pipeline, run_id) == before
    assert faulted.containers(pipeline, run_id) == []


def test_marked_as_failed_it_saves_and_goes_and_cleared_it_resumes_in_a_container_of_its_own(faulted: Faulted) -> None:
    pipeline = "marked-failed"
    run_id = faulted.night(pipeline)
    container = faulted.until_ticking(pipeline, run_id)
    path = f"/dags/{pipeline}/dagRuns/{run_id.replace('+', '%2B')}"
    faulted.api.call("PATCH", f"{path}/taskInstances/train", {"new_state": "failed"})
    faulted.until(lambda: faulted.containers(pipeline, run_id) == [] or None, seconds=60)
    plan = faulted.plan(pipeline, run_id)
    store = open_store(str(faulted.services.store))
    assert plan_of(store, pipeline, plan.run_id) == plan
    assert any(entry.key.endswith(".json") for entry in store.list(f"checkpoints/{pipeline}"))
    faulted.wait(pipeline, run_id)
    faulted.api.call(
        "POST",
        f"/dags/{pipeline}/clearTaskInstances",
        {
            "dag_run_id": run_id,
            "task_ids": ["train"],
            "include_downstream": True,
            "dry_run": False,
            "only_failed": False,
        },
    )
    faulted.until_running(pipeline, run_id, "train")
    faulted.until(lambda: faulted.containers(pipeline, run_id) or None, seconds=60)
    assert faulted.containers(pipeline, run_id) != [container]
    assert faulted.wait(pipeline, run_id, seconds=300)["run"] == "success"
    manifests = [entry.key for entry in store.list(f"published/{pipeline}/train/") if "manifest" in entry.key]
    assert len(manifests) == 1
    result = faulted.outcomes(pipeline, run_id)["train"].result
    assert result is not None
    assert (documents.trained(result).resumed_from or 0) > 0
