"""A training that its task has left to the follower of its host: the follower is killed, and a person ends the task."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from ratchet.contracts import left_paths
from ratchet.contracts.labels import Label
from ratchet.runners.docker import DockerRunner
from ratchet.samples.clicks import write
from ratchet.store.opening import open_store
from ratchet_airflow.run_id import store_run_id
from tests.airflow.installation import ENDED, YESTERDAY, ticks
from tests.faults.supervised import DEFERRED, FaultInstallation, add
from tests.readable import readable_by_all
from tests.saved_checkpoints import saved_checkpoints

pytestmark = [pytest.mark.airflow, pytest.mark.docker, pytest.mark.heavy, pytest.mark.xdist_group("far")]
KILLED, MARKED = DEFERRED


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory, stage_image: str) -> Iterator[FaultInstallation]:
    """An Airflow whose tasks leave their containers to a follower beside it, after ten seconds."""
    home = tmp_path_factory.mktemp("far")
    readable_by_all(home)
    made = FaultInstallation(
        home,
        {
            "RATCHET_RUNNER": "docker",
            "RATCHET_STAGE_IMAGE": stage_image,
            "RATCHET_DEFER_SECONDS": "10",
            "RATCHET_FOLLOWER": "host",
            "RATCHET_POOL_CPU": "6",
        },
    )
    for _ in write(made.services.data, days=5, rows_per_day=3000, end=YESTERDAY, seed=0):
        pass
    for name in DEFERRED:
        add(made, name)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@contextmanager
def follower(of: FaultInstallation) -> Iterator["subprocess.Popen[bytes]"]:
    """The server, until the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ratchet_airflow.follower"], env=of.services.running_environment()
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=60)


def test_it_is_killed_and_the_next_one_goes_on_and_a_person_ends_a_task(far: FaultInstallation) -> None:
    runs, containers = dict[str, str](), dict[str, str]()

    def state(pipeline: str) -> str:
        return str(far.api.tasks(pipeline, runs[pipeline])["train"]["state"])

    def log(pipeline: str) -> list[int]:
        return ticks(far.log(pipeline, runs[pipeline], "train"))

    def deferred(pipeline: str) -> bool:
        found = state(pipeline)
        assert found not in ENDED, far.log(pipeline, runs[pipeline], "train")
        return found == "deferred"

    with follower(far) as first:
        for pipeline in (MARKED, KILLED):  # the training of the first one lasts until a person ends it
            runs[pipeline] = far.night(pipeline)
            containers[pipeline] = far.until_ticking(pipeline, runs[pipeline])
            far.until(partial(deferred, pipeline), seconds=120)
        before = log(KILLED)
        far.until(lambda: len(log(KILLED)) > len(before), seconds=180)
        first.kill()
    assert state(KILLED) == "deferred"
    assert DockerRunner().status(containers[KILLED]).running
    name = DockerRunner().labels(containers[KILLED])[Label.ATTEMPT]
    with follower(far):
        path = f"/dags/{MARKED}/dagRuns/{runs[MARKED].replace('+', '%2B')}"
        far.api.call("PATCH", f"{path}/taskInstances/train", {"new_state": "failed"})
        far.until(lambda: containers[MARKED] not in far.containers(MARKED, runs[MARKED]), seconds=180)
        far.published_once(KILLED, runs[KILLED])
    store = open_store(str(far.services.store))
    assert saved_checkpoints(store, f"checkpoints/{MARKED}")
    assert "train" not in far.outcomes(MARKED, runs[MARKED])
    assert far.containers(KILLED, runs[KILLED]) == []
    assert far.api.tasks(KILLED, runs[KILLED])["train"]["try_number"] == 1
    outcome = far.outcomes(KILLED, runs[KILLED])["train"]
    assert outcome.result is not None
    assert outcome.result.attempt == name
    said = far.log(KILLED, runs[KILLED], "train")
    assert "the follower of this host follows its container from here on" in said
    heard = ticks(said)
    assert heard == list(range(1, len(heard) + 1))  # none lost, none twice
    assert outcome.log is not None
    assert ticks(store.read(outcome.log).decode()) == heard
    of_killed = re.escape(store_run_id(runs[KILLED]))
    left = [store.read(entry.key).decode() for entry in store.list(left_paths.EVERY) if entry.key.endswith("job.json")]
    assert not [text for text in left if re.search(of_killed, text)]
