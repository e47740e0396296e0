"""`ratchet run` is killed without notice in the middle of a training, and run again: one training, in one container.

In between it is run beside another engine, which does not know that container: nothing begins there.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ratchet.contracts.labels import Label
from ratchet.runners.docker import DockerRunner
from ratchet.runs.history import runs_of
from ratchet.runs.jobs import store_label
from ratchet.runs.outcomes import outcomes
from tests.faults.second_engine import NEEDS, SecondEngine
from tests.faults.ticking import ticking
from tests.faults.trainings import DAY, trained, trainings
from tests.faults.two_engines import here, seen
from tests.waiting import until

pytestmark = [*NEEDS, pytest.mark.heavy, pytest.mark.xdist_group("second-engine")]
ROOT = Path(__file__).parents[2]
STALE_S = 7
"""Instead of half a minute, after which a lease that does not beat counts as a dead run's; a beat takes 5."""
RUN = f"""
import sys
from ratchet.cli.main import main
from ratchet.store import lease
lease.STALE_S = {STALE_S}
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def engine(stage_image: str) -> Iterator[SecondEngine]:
    """Another one, with the stage image. The folder's path is short, for sockets have room for 107 bytes."""
    made = SecondEngine(Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp")))
    try:
        made.take_image(stage_image)
        made.start()
        yield made
    finally:
        made.clear()


def test_the_same_command_again_goes_on_with_the_container_that_is_still_there_and_elsewhere_it_begins_none(
    tmp_path: Path, stage_image: str, engine: SecondEngine
) -> None:
    with trainings(tmp_path, stage_image, model=ticking(0.3), rows_per_day=2000) as made:
        words = ["run", str(tmp_path / "pipeline"), "--store", made.store.uri, "--runner", "docker", "--date", f"{DAY}"]
        changed = ("train.batch_size=64", "train.epochs=3", "stages.train.grace=20s")
        command = [sys.executable, "-c", RUN, *words, *(word for change in changed for word in ("--set", change))]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "RATCHET_STAGE_IMAGE": stage_image}

        def found(word: str = "") -> set[str]:
            wanted = {Label.STORE: store_label(made.store.uri), Label.STAGE: "train"}
            return {handle for handle in DockerRunner().find(wanted) if word in logs(handle)}

        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as first:
            until(lambda: first.poll() is not None or found("tick 3"), seconds=200)
            assert first.poll() is None, first.communicate()
            container = found("tick 3")
            first.kill()
        with seen(made, here(), engine.address) as began:
            there = {**environment, "DOCKER_HOST": engine.address}
            away = subprocess.run(command, env=there, capture_output=True, text=True, check=False, timeout=200)
            assert away.returncode == 69, away
            assert "may still run on" in away.stderr
            assert found() == container
            again = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=200)
            assert again.returncode == 0, again
        assert began.containers == 0
        assert found() == set()
        killed, waited, ended = sorted(runs_of(made.store, "faulty", DAY))
        assert "train" not in outcomes(made.store, "faulty", killed)
        assert outcomes(made.store, "faulty", waited)["train"].state == "failed"
        assert trained(outcomes(made.store, "faulty", ended)["train"]).resumed_from is None


def logs(handle: str) -> str:
    """What a container has printed so far."""
    said = subprocess.run(["docker", "logs", handle], capture_output=True, text=True, check=False)
    return said.stdout + said.stderr
