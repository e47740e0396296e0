"""A training that receives a notice to stop saves its work, and resumes from there to the same bytes."""

import subprocess
from pathlib import Path

import pytest

from ratchet.runs.events import Event
from tests.faults.trainings import containers, trained, trainings

pytestmark = [pytest.mark.docker, pytest.mark.heavy]

STEPS = 63
NOTICE_S = 30

# Slow to train, so that there is a middle of an epoch on any machine.
SLOW = """
import time
from torch import nn

class Mine(nn.Sequential):
    def __init__(self, inputs):
        super().__init__(nn.Linear(inputs, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))

    def forward(self, x):
        if self.training:
            time.sleep(0.1)
        return super().forward(x)
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_docker_stop_in_the_middle_of_an_epoch_loses_no_step_and_changes_no_bit(
    processes: int, tmp_path: Path, stage_image: str
) -> None:
    with trainings(tmp_path, stage_image, model=SLOW, rows_per_day=2000) as made:
        given = {
            "train.batch_size": 64 * processes,
            "train.epochs": 2 * processes,
            "resources.train.processes": processes,
        }
        plan = made.plan("stopped", **given)
        made.prepare(plan)
        seen: list[int] = []
        said: list[str] = []

        def stop(event: Event) -> None:
            said.append(event.message)
            if event.name == "progress" and event.fields["step"] < event.fields["steps"] and not seen:
                seen.append(int(event.fields["done"]))
                (container,) = containers(made)
                subprocess.run(["docker", "stop", "--time", str(NOTICE_S), container], check=True, timeout=2 * NOTICE_S)

        resumed = trained(made.train(plan, stop))  # nobody has to ask again
        assert containers(made) == []
        assert any("it goes on at once" in line for line in said)
        assert resumed.resumed_from is not None
        assert 0 < seen[0] <= resumed.resumed_from < STEPS

        undisturbed = made.plan("undisturbed", **given, **{"train.checkpoint.every": "19m"})  # another fingerprint
        made.prepare(undisturbed)
        whole = trained(made.train(undisturbed))
        assert whole.resumed_from is None
        assert resumed.digest == whole.digest
        assert [each.loss for each in resumed.evaluations] == [each.loss for each in whole.evaluations]
