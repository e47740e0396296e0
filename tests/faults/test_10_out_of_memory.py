"""A training that does not fit into its container: the cause is named, and the next try takes smaller micro-batches."""

from datetime import timedelta
from pathlib import Path

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import OutOfMemory
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.runs.outcomes import outcomes
from ratchet.runs.requests import compose
from tests.faults.trainings import DAY, Trainings, containers, trained, trainings
from tests.saved_checkpoints import saved_checkpoints

pytestmark = [pytest.mark.docker, pytest.mark.heavy]

ROWS = 2048
"""Of a day; two days are trained on, in one step."""

# 128 KiB a row after each of two layers: 512 MiB each for a whole step of 4096 rows, before its gradients.
WIDE = """
from torch import nn

class Mine(nn.Sequential):
    def __init__(self, inputs):
        super().__init__(nn.Linear(inputs, 32768), nn.ReLU(), nn.Linear(32768, 1))
"""
# Fits at first; after 20 steps, more than 90 rows need 16 MiB each.
GROWING = """
import torch
from torch import nn

class Mine(nn.Sequential):
    def __init__(self, inputs):
        super().__init__(nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, 1))
        self.ticks = 0

    def forward(self, x):
        if self.training and len(x) > 24:  # not the few made-up rows of the trial
            self.ticks += 1
            if self.ticks > 20 and len(x) > 90:
                torch.ones(len(x), 2**22)
        return super().forward(x)
"""
MEMORY = {"resources.train.memory": "1000m"}


def attempt(made: Trainings, plan: RunPlan) -> Outcome | OutOfMemory:
    """Train, or say how it ran out of memory."""
    try:
        return made.train(plan)
    except OutOfMemory as error:
        return error


def next_accumulation(made: Trainings, plan: RunPlan, so_far: RunPlan) -> int:
    """What the training of a plan would be asked for, after what has come before it in another."""
    return compose(made.store, plan, "train", outcomes(made.store, "faulty", so_far.run_id), "look").accumulation


def test_a_step_that_does_not_fit_is_halved_until_it_does_and_the_next_night_begins_with_that(
    tmp_path: Path, stage_image: str
) -> None:
    with trainings(tmp_path, stage_image, model=WIDE, rows_per_day=ROWS) as made:
        given = {"train.batch_size": 2 * ROWS, "train.epochs": 2}
        plan = made.plan("small", **given, **MEMORY)
        made.prepare(plan)
        tried = [next_accumulation(made, plan, plan)]
        while isinstance(ended := attempt(made, plan), OutOfMemory):
            assert ended.cause == "train needed more than its 1000 MiB of memory"
            assert outcomes(made.store, "faulty", plan.run_id)["train"].state == "failed"
            assert containers(made) == []
            assert f"compute a step in {2 * tried[-1]} micro-batches" in ended.remedy
            tried.append(next_accumulation(made, plan, plan))
        assert tried in ([1, 2], [1, 2, 4])  # by how the kernel counts
        document = trained(ended)
        assert (document.accumulation, document.batch_size) == (tried[-1], 2 * ROWS)

        tomorrow = made.plan("tomorrow", day=DAY + timedelta(days=1), **given, **MEMORY)
        assert next_accumulation(made, tomorrow, plan) == tried[-1]

        roomy = made.plan("roomy", **given, **{"resources.train.memory": "6g"})
        made.prepare(roomy)
        whole = trained(made.train(roomy))
        assert whole.accumulation == 1
        for one, other in zip(whole.evaluations, document.evaluations, strict=True):
            assert other.loss == pytest.approx(one.loss, rel=1e-3)
            assert other.valid_metric == pytest.approx(one.valid_metric, rel=1e-2)


def test_a_retry_after_an_out_of_memory_failure_goes_on_from_the_checkpoint_and_leaves_none(
    tmp_path: Path, stage_image: str
) -> None:
    with trainings(tmp_path, stage_image, model=GROWING, rows_per_day=ROWS) as made:
        given = {"train.batch_size": 128, "train.epochs": 2, "train.checkpoint.steps": 5}
        plan = made.plan("growing", **given, **MEMORY)
        made.prepare(plan)
        assert isinstance(attempt(made, plan), OutOfMemory)
        assert saved_checkpoints(made.store, paths.checkpoints("faulty", "train"))
        ended = attempt(made, plan)
        assert isinstance(ended, Outcome)
        document = trained(ended)
        assert document.resumed_from == 20
        assert [(each.begin, each.accumulation) for each in document.segments] == [(0, 1), (20, 2)]
        assert list(made.store.list("checkpoints")) == []
