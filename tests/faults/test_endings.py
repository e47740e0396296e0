"""A training under way in a real Airflow: its task is killed, the reaper looks at it, its run takes too long.

One training for these: each leaves it as the next one needs it, under way, and the last of them ends it. Another one
does not listen, and nobody is left to see to its end.
"""

import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ratchet.contracts.labels import Label
from ratchet.runners.docker import DockerRunner
from ratchet.runners.job import Job
from ratchet.runs.jobs import store_label
from ratchet.store.opening import open_store
from tests.airflow.installation import ticks
from tests.faults.supervised import DEAF, LOST_S, FaultInstallation
from tests.saved_checkpoints import saved_checkpoints

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.docker,
    pytest.mark.heavy,
    pytest.mark.xdist_group("faulted"),
]
PIPELINE = "endless"
IDLE = ("python", "-I", "-S", "-c", "import signal; signal.pause()")
AT_ONCE_S = LOST_S
"""Until a killed task's next try begins: less than a heartbeat's timeout and its detection, also on a busy machine."""


@pytest.fixture(scope="module")
def trainings(faulted: FaultInstallation) -> dict[str, str]:
    """The runs of two trainings that are under way, one of which does not listen, by pipeline."""
    runs = {pipeline: faulted.night(pipeline) for pipeline in (PIPELINE, DEAF)}
    for pipeline, run_id in runs.items():
        faulted.until_ticking(pipeline, run_id)
    return runs


@pytest.fixture
def training(trainings: dict[str, str]) -> str:
    """The run of the one that listens."""
    return trainings[PIPELINE]


@pytest.fixture
def deaf(trainings: dict[str, str]) -> str:
    """The run of the one that does not."""
    return trainings[DEAF]


@pytest.fixture
def idle(faulted: FaultInstallation, stage_image: str) -> Iterator["Idle"]:
    """Containers that do nothing. None is left at the end."""
    made = Idle(faulted, stage_image)
    yield made
    subprocess.run(["docker", "rm", "--force", "--volumes", *made.handles], capture_output=True, check=False)


class Idle:
    """Starts containers with the labels of a stage, of this installation unless another is named."""

    def __init__(self, faulted: FaultInstallation, image: str) -> None:
        self._store = open_store(str(faulted.services.store)).uri
        self._image = image
        self.handles: list[str] = []

    def start(self, run: str, stage: str, *, store: str | None = None) -> str:
        """A container of Ratchet's."""
        labels = {
            Label.STORE: store_label(store or self._store),
            Label.PIPELINE: PIPELINE,
            Label.STAGE: stage,
            Label.RUN: run,
            Label.ATTEMPT: uuid.uuid4().hex,
            Label.FINGERPRINT: uuid.uuid4().hex,
            Label.GRACE: "1",
            Label.TEST: "1",
        }
        job = Job(name="idle", request=b"", image=self._image, command=IDLE, labels=labels)
        self.handles.append(DockerRunner().submit(job))
        return self.handles[-1]

    def start_other(self) -> str:
        """A container of another program, which happens to have a label of ours."""
        label = f"{Label.STORE}={store_label(self._store)}"
        command = ["docker", "run", "--detach", "--label", f"{Label.TEST}=1", "--label", label, "--entrypoint", IDLE[0]]
        started = subprocess.run([*command, self._image, *IDLE[1:]], capture_output=True, text=True, check=True)
        self.handles.append(started.stdout.strip())
        return self.handles[-1]


def alive() -> set[str]:
    """Every container that runs."""
    listed = subprocess.run(["docker", "ps", "--quiet", "--no-trunc"], capture_output=True, text=True, check=True)
    return set(listed.stdout.split())


def reaped(faulted: FaultInstallation) -> str:
    """What the reaper of the set-up has logged."""
    return Path(faulted.server("reaper").log).read_text(encoding="utf-8")


def look_now(faulted: FaultInstallation) -> None:
    """Kill the reaper: it loses nothing, and the one that the supervisor starts looks at once."""
    before = faulted.server("reaper")
    assert before.process is not None
    os.kill(before.process.pid, signal.SIGKILL)
    faulted.running("reaper", restarts=before.restarts + 1)


def test_when_only_the_tasks_process_is_killed_its_next_try_goes_on_at_once_with_the_same_container(
    faulted: FaultInstallation, training: str
) -> None:
    (container,) = faulted.containers(PIPELINE, training)
    task, worker = faulted.processes(PIPELINE, training)
    task.kill()
    killed = datetime.now(UTC)
    faulted.second_try(PIPELINE, training)
    assert (faulted.began(PIPELINE, training) - killed).total_seconds() < AT_ONCE_S
    assert worker.is_running()
    assert faulted.containers(PIPELINE, training) == [container]
    faulted.until(lambda: ticks(faulted.log(PIPELINE, training, "train", attempt=2)))
    first, second = (ticks(faulted.log(PIPELINE, training, "train", attempt=number)) for number in (1, 2))
    # What it had logged and its worker had not read is logged again: one line at most, and none is lost.
    assert second[0] - first[-1] in {0, 1}


def test_the_reaper_ends_what_no_run_follows_and_leaves_the_living_and_the_foreign_alone(
    faulted: FaultInstallation, training: str, idle: Idle
) -> None:
    (living,) = faulted.containers(PIPELINE, training)
    run = faulted.plan(PIPELINE, training).run_id
    nobodys, past = idle.start("a-run-that-is-no-more", "train"), idle.start(run, "features")
    waited_for = idle.start(run, "evaluate")
    foreign, other = idle.start("a-run-of-theirs", "train", store="file:///another/store"), idle.start_other()
    look_now(faulted)
    runner = DockerRunner()
    faulted.until(lambda: not {nobodys, past} & {*runner.find({Label.PIPELINE: PIPELINE})}, seconds=60)
    assert alive() & {living, nobodys, past, waited_for, foreign, other} == {living, waited_for, foreign, other}
    log = reaped(faulted)
    assert f"ending train of {PIPELINE}, run a-run-that-is-no-more: no task follows it" in log
    assert f"ending features of {PIPELINE}, run {run}: no task follows it" in log


def test_a_run_that_takes_too_long_tells_its_training_to_stop_and_that_saves_and_goes(
    faulted: FaultInstallation, training: str
) -> None:
    assert len(faulted.containers(PIPELINE, training)) == 1
    faulted.hours_pass(training, 72)
    states = faulted.wait(PIPELINE, training)
    assert (states["run"], states["train"]) == ("failed", "skipped")  # Airflow's word for what a run's end cut off
    faulted.until(lambda: faulted.containers(PIPELINE, training) == [], seconds=90)
    store = open_store(str(faulted.services.store))
    assert saved_checkpoints(store, f"checkpoints/{PIPELINE}")
    log = faulted.log(PIPELINE, training, "train", attempt=2)
    assert "Server indicated the task shouldn't be running anymore" in log
    (alert,) = faulted.until(lambda: [sent for sent in faulted.alerts() if sent["title"].endswith(": run failed")])
    assert alert["title"].startswith(f"{PIPELINE} {faulted.plan(PIPELINE, training).data_date}: ")
    assert alert["cause"] == "the run exceeded its time limit"


def test_a_training_that_is_cleared_while_it_runs_is_ended_before_it_starts_afresh(
    faulted: FaultInstallation, deaf: str
) -> None:
    (before,) = faulted.containers(DEAF, deaf)
    faulted.api.call(
        "POST",
        f"/dags/{DEAF}/clearTaskInstances",
        {"dag_run_id": deaf, "task_ids": ["train"], "dry_run": False, "only_failed": False},
    )
    faulted.until(lambda: faulted.api.tasks(DEAF, deaf)["train"]["try_number"] == 2)
    faulted.until_running(DEAF, deaf, "train")
    faulted.until(lambda: ticks(faulted.log(DEAF, deaf, "train", attempt=2)), seconds=150)
    (after,) = faulted.containers(DEAF, deaf)
    assert after != before
    log = faulted.log(DEAF, deaf, "train", attempt=2)
    assert "going on with it" not in log
    assert ticks(log)[0] == 1


def test_a_training_that_does_not_listen_and_whose_finisher_is_killed_too_is_left_to_the_reaper(
    faulted: FaultInstallation, deaf: str
) -> None:
    (container,) = faulted.containers(DEAF, deaf)
    task, _ = faulted.processes(DEAF, deaf)
    path = f"/dags/{DEAF}/dagRuns/{deaf.replace('+', '%2B')}"
    faulted.api.call("PATCH", f"{path}/taskInstances/train", {"new_state": "failed"})
    faulted.until(lambda: faulted.finishers(container))

    def nobody_left() -> bool:
        finishers = faulted.finishers(container)  # Airflow may ask the task to stop again, which starts another one
        for finisher in finishers:
            finisher.kill()
        return not finishers and not task.is_running()  # a lease beats as long as its task lives; it is not reaped

    faulted.until(nobody_left, seconds=60)
    assert faulted.wait(DEAF, deaf)["run"] == "failed"
    look_now(faulted)
    faulted.until(lambda: faulted.containers(DEAF, deaf) == [])
    log = reaped(faulted)
    assert f"ending train of {DEAF}, run {faulted.plan(DEAF, deaf).run_id}: no task follows it" in log
