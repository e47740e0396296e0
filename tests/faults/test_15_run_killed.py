"""`ratchet run` is killed without notice in the middle of a training, and run again: one training, in one container."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ratchet.contracts.labels import Label
from ratchet.runners.docker import DockerRunner
from ratchet.runs.history import runs_of
from ratchet.runs.jobs import store_label
from ratchet.runs.outcomes import outcomes
from tests.faults.ticking import ticking
from tests.faults.trainings import DAY, trained, trainings

pytestmark = [pytest.mark.docker, pytest.mark.heavy, pytest.mark.xdist_group("attempts")]
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


def test_the_same_command_again_goes_on_with_the_container_that_is_still_there(
    tmp_path: Path, stage_image: str
) -> None:
    with trainings(tmp_path, stage_image, model=ticking(0.1), rows_per_day=2000) as made:
        words = ["run", str(tmp_path / "pipeline"), "--store", made.store.uri, "--runner", "docker", "--date", f"{DAY}"]
        changed = ("train.batch_size=64", "train.epochs=3", "stages.train.grace=20s")
        command = [sys.executable, "-c", RUN, *words, *(word for change in changed for word in ("--set", change))]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "RATCHET_STAGE_IMAGE": stage_image}
        began = time.monotonic()

        def found(word: str = "") -> set[str]:
            wanted = {Label.STORE: store_label(made.store.uri), Label.STAGE: "train"}
            return {handle for handle in DockerRunner().find(wanted) if word in logs(handle)}

        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as first:
            while not (container := found("tick 3")):
                assert first.poll() is None, first.communicate()
                assert time.monotonic() - began < 200
                time.sleep(0.2)
            first.kill()
        seen: set[str] = set()
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as again:
            while again.poll() is None:
                assert time.monotonic() - began < 400
                seen |= found()
                time.sleep(0.2)
            assert again.returncode == 0, again.communicate()
        assert seen == container
        assert found() == set()
        killed, ended = sorted(runs_of(made.store, "faulty", DAY))
        assert "train" not in outcomes(made.store, "faulty", killed)
        assert trained(outcomes(made.store, "faulty", ended)["train"]).resumed_from is None


def logs(handle: str) -> str:
    """What a container has printed so far."""
    said = subprocess.run(["docker", "logs", handle], capture_output=True, text=True, check=False)
    return said.stdout + said.stderr
