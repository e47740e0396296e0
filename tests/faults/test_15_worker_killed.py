"""A worker and its task are killed in the middle of a training: the next try goes on with the same container.

Marking a task as failed, and clearing it, are here too: what they do to the container is the other half.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime

import psutil
import pytest

from ratchet.contracts import summaries
from ratchet.contracts.labels import Label
from ratchet.runners.docker import DockerRunner
from ratchet.runs.history import plan_of
from ratchet.store.opening import open_store
from tests.airflow.installation import ticks
from tests.faults.supervised import PICKED_UP_S, TICKS, FaultInstallation
from tests.saved_checkpoints import saved_checkpoints
from tests.waiting import until

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.docker,
    pytest.mark.heavy,
    pytest.mark.xdist_group("faulted"),
]
KILLED, LATE, MARKED = "worker-killed", "late-attempt", "marked-failed"


@dataclass(frozen=True, slots=True)
class Struck:
    """A training that something was done to.

    attempt: whose container it is. processes: of its task, and of the worker that this was forked from.
    """

    run_id: str
    container: str
    attempt: str
    processes: list[psutil.Process]
    at: datetime


@pytest.fixture(scope="module")
def struck(faulted: FaultInstallation) -> Iterator[dict[str, Struck]]:
    """Three trainings under way at once: one is killed with its worker, one stopped, and one marked as failed.

    To be missed takes half a minute; so they wait for it together.
    """
    runs = {pipeline: faulted.night(pipeline) for pipeline in (KILLED, LATE, MARKED)}
    containers = {pipeline: faulted.until_ticking(pipeline, run_id) for pipeline, run_id in runs.items()}
    attempts = {name: DockerRunner().labels(container)[Label.ATTEMPT] for name, container in containers.items()}
    found = {}
    with ExitStack() as ended:
        for pipeline, strike in ((KILLED, kill), (LATE, stop), (MARKED, lambda _: mark(faulted, MARKED, runs[MARKED]))):
            run_id, processes = runs[pipeline], faulted.processes(pipeline, runs[pipeline])
            ended.callback(wake, processes)
            strike(processes)
            found[pipeline] = Struck(run_id, containers[pipeline], attempts[pipeline], processes, datetime.now(UTC))
        yield found


def kill(task_and_worker: list[psutil.Process]) -> None:
    """End both, without a word."""
    task, worker = task_and_worker
    task.suspend()
    until(has_read_all(worker), seconds=60, every=0.3)  # else what the task has logged dies with it on the way
    for process in task_and_worker:
        process.kill()


def has_read_all(process: psutil.Process) -> Callable[[], bool]:
    """Whether a process waits, and has not run since this was asked the time before."""
    seen: list[object] = []

    def asked() -> bool:
        seen.append(process.num_ctx_switches())
        return process.status() == psutil.STATUS_SLEEPING and seen[-2:-1] == seen[-1:]

    return asked


def stop(task_and_worker: list[psutil.Process]) -> None:
    """Suspend both."""
    for process in task_and_worker:
        process.suspend()


def wake(task_and_worker: list[psutil.Process]) -> None:
    """Let those that are there go on."""
    for process in task_and_worker:
        if process.is_running():
            os.kill(process.pid, signal.SIGCONT)


def mark(faulted: FaultInstallation, pipeline: str, run_id: str) -> None:
    """Mark the training as failed."""
    path = f"/dags/{pipeline}/dagRuns/{run_id.replace('+', '%2B')}"
    faulted.api.call("PATCH", f"{path}/taskInstances/train", {"new_state": "failed"})


def goes_on(faulted: FaultInstallation, pipeline: str, first: Struck) -> bool:
    """Whether the second try says that it follows the container of the first."""
    said = f"the container of attempt {first.attempt} is still there; going on with it"
    return said in faulted.log(pipeline, first.run_id, "train", attempt=2)


def test_marked_as_failed_it_saves_and_goes_and_cleared_it_resumes_in_a_container_of_its_own(
    faulted: FaultInstallation, struck: dict[str, Struck]
) -> None:
    run_id, container = struck[MARKED].run_id, struck[MARKED].container
    faulted.until(lambda: faulted.containers(MARKED, run_id) == [], seconds=180)
    plan = faulted.plan(MARKED, run_id)
    store = open_store(str(faulted.services.store))
    assert plan_of(store, MARKED, plan.run_id) == plan
    assert saved_checkpoints(store, f"checkpoints/{MARKED}")
    faulted.wait(MARKED, run_id)
    faulted.api.call(
        "POST",
        f"/dags/{MARKED}/clearTaskInstances",
        {
            "dag_run_id": run_id,
            "task_ids": ["train"],
            "include_downstream": True,
            "dry_run": False,
            "only_failed": False,
        },
    )
    faulted.until_running(MARKED, run_id, "train")
    faulted.until(lambda: faulted.containers(MARKED, run_id), seconds=180)
    assert faulted.containers(MARKED, run_id) != [container]
    assert faulted.wait(MARKED, run_id, seconds=300)["run"] == "success"
    manifests = [entry.key for entry in store.list(f"published/{MARKED}/train/") if "manifest" in entry.key]
    assert len(manifests) == 1
    result = faulted.outcomes(MARKED, run_id)["train"].result
    assert result is not None
    assert (summaries.trained(result).resumed_from or 0) > 0


def test_the_same_container_is_picked_up_and_its_log_goes_on_where_it_was_cut(
    faulted: FaultInstallation, struck: dict[str, Struck]
) -> None:
    run_id = struck[KILLED].run_id
    faulted.second_try(KILLED, run_id)
    assert goes_on(faulted, KILLED, struck[KILLED])
    assert (faulted.began(KILLED, run_id) - struck[KILLED].at).total_seconds() < PICKED_UP_S
    faulted.published_once(KILLED, run_id)
    assert faulted.containers(KILLED, run_id) == []
    result = faulted.outcomes(KILLED, run_id)["train"].result
    assert result is not None
    assert summaries.trained(result).resumed_from is None  # one training, from its beginning to its end
    first, second = (ticks(faulted.log(KILLED, run_id, "train", attempt=number)) for number in (1, 2))
    assert len([*first, *second]) > TICKS
    assert [*first, *second] == list(range(1, len([*first, *second]) + 1))  # none lost, none twice


def test_a_late_attempt_that_wakes_up_after_its_successor_changes_nothing(
    faulted: FaultInstallation, struck: dict[str, Struck]
) -> None:
    """It is stopped, its successor finishes, and it goes on."""
    run_id, late = struck[LATE].run_id, struck[LATE].processes
    faulted.second_try(LATE, run_id)
    assert goes_on(faulted, LATE, struck[LATE])
    faulted.published_once(LATE, run_id)
    before = faulted.outcomes(LATE, run_id)
    wake(late)
    psutil.wait_procs(late[:1], timeout=60)
    assert not late[0].is_running()
    faulted.published_once(LATE, run_id)
    assert faulted.outcomes(LATE, run_id) == before
    assert faulted.containers(LATE, run_id) == []
