"""A stage that hangs while it imports the pipeline's own code is ended by its time limit."""

from pathlib import Path

import pytest

from ratchet.contracts.errors import Unavailable
from ratchet.runs.outcomes import outcomes
from tests.faults.trainings import containers, trainings

pytestmark = [pytest.mark.docker, pytest.mark.heavy]
HANGS = """
import signal
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    time.sleep(3600)
"""


def test_it_is_stopped_killed_removed_and_named(tmp_path: Path, stage_image: str) -> None:
    with trainings(tmp_path, stage_image, model=HANGS, rows_per_day=200) as made:
        plan = made.plan("hangs", **{"stages.train.timeout": "20s", "stages.train.grace": "2s"})
        made.prepare(plan)
        with pytest.raises(Unavailable, match="train took longer than 20s and was stopped") as raised:
            made.train(plan)
        assert "raise stages.train.timeout" in str(raised.value)
        assert containers(made) == []
        assert outcomes(made.store, "faulty", plan.run_id)["train"].state == "failed"
