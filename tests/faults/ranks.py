"""Trainings on two ranks, one of which does something once."""

from typing import Any

from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.summaries import TrainedModel
from ratchet.runs.events import Event
from ratchet.runs.work import OnEvent
from tests.faults.trainings import Trainings, trained

STEP = 13
"""In which it does so."""
CADENCE = 5
"""Steps between two checkpoints."""
FAULTY = f"""
import os, signal, time
from pathlib import Path
from torch import nn

class Mine(nn.Sequential):
    steps = 0

    def __init__(self, inputs):
        super().__init__(nn.Linear(inputs, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))

    def forward(self, x):
        if self.training and len(x) > 30:  # not in the trial of a few rows
            Mine.steps += 1
            done = Path("FOLDER") / "done"
            if os.environ.get("RANK") == "1" and Mine.steps == {STEP} and not done.exists():
                done.touch()
                {{fault}}
        return super().forward(x)
"""
"""model.py; FOLDER is to be replaced."""


def plan(made: Trainings, name: str, **more: Any) -> RunPlan:
    """A run with two processes, and its days up to features."""
    given = {
        "train.batch_size": 128,
        "train.epochs": 4,
        "train.checkpoint.steps": CADENCE,
        "resources.train.processes": 2,
        "resources.train.cpus": 2,
        **more,
    }
    planned = made.plan(name, **given)
    made.prepare(planned)
    return planned


def on_two_ranks(made: Trainings, planned: RunPlan, on_event: OnEvent) -> Outcome:
    """Train; the log says on how many ranks."""
    said: list[str] = []

    def hear(event: Event) -> None:
        said.append(event.message)
        on_event(event)

    outcome = made.train(planned, hear)
    assert any("a step is computed by 2 processes" in line for line in said)
    return outcome


def same_result(made: Trainings, found: TrainedModel) -> None:
    """Train once more, undisturbed: another fingerprint, since its checkpoints come at other times."""
    whole = trained(made.train(plan(made, "whole", **{"train.checkpoint.every": "19m"})))
    assert whole.resumed_from is None
    assert found.digest == whole.digest
    assert [each.loss for each in found.evaluations] == [each.loss for each in whole.evaluations]
