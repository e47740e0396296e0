"""A poisoned row makes the loss infinite: training stops before such a state is saved, and names the step and the row."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.contracts.errors import RatchetError
from ratchet.runs.events import Event
from tests.faults.ranks import plan
from tests.faults.trainings import DAY, Trainings, trainings
from tests.saved_checkpoints import saved_checkpoints

EXPLODES = """
import torch
from torch import nn

class Mine(nn.Sequential):
    def __init__(self, inputs):
        super().__init__(nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, x):
        return super().forward(x) + torch.exp(20 * (x[:, :1] - 5))
"""
"""model.py: it overflows where the first number is far from all others."""
CADENCE = 2


def poison(made: Trainings) -> None:
    """Give one row of a training day a number far from all others."""
    path = made.folder / "data" / f"date={DAY.replace(day=DAY.day - 2)}" / "part-0.parquet"
    columns = pq.read_table(path).to_pydict()
    columns["x"][300], columns["clicked"][300] = 1e9, 0
    pq.write_table(pa.table(columns), path)


def saved(made: Trainings) -> dict[str, bytes]:
    """The documents of the checkpoints in the store, by name."""
    return {key.rpartition("/")[2]: made.store.read(key) for key in saved_checkpoints(made.store, "")}


def test_a_loss_that_is_not_finite_is_never_saved_and_the_state_before_it_is_kept(tmp_path: Path) -> None:
    with trainings(tmp_path, None, model=EXPLODES, rows_per_day=600) as made:
        poison(made)
        planned = plan(made, "poisoned", **{"train.checkpoint.steps": CADENCE, "train.seed": 1})
        with pytest.raises(RatchetError, match=r"the loss is inf at step \d+, in ") as raised:
            made.train(planned)
        assert type(raised.value) is RatchetError
        assert "x" in raised.value.cause
        assert "no such state was saved" in raised.value.cause
        (step,) = (int(found) for found in re.findall(r"at step (\d+)", raised.value.cause))
        kept = saved(made)
        assert kept
        assert max(kept) == f"step-{(step - 1) // CADENCE * CADENCE:010d}.json"
        said: list[Event] = []
        with pytest.raises(RatchetError, match=rf"the loss is inf at step {step}, in "):
            made.train(planned, said.append)
        assert any(
            f"goes on from the checkpoint of step {(step - 1) // CADENCE * CADENCE}" in each.message for each in said
        )
        assert saved(made) == kept
