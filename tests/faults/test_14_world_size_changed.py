"""A training that goes on with one process after two, or with two after one, takes each row once in an epoch."""

from pathlib import Path

import numpy as np
import pytest

from ratchet.contracts.errors import RatchetError
from ratchet.runs.events import Event
from tests.faults.ranks import plan
from tests.faults.trainings import trained, trainings

RECORDS = """
import os, torch
from pathlib import Path
from torch import nn

class Mine(nn.Sequential):
    steps = 0

    def __init__(self, inputs):
        super().__init__(nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, x):
        if self.training and len(x) > 30:
            Mine.steps += 1
            if os.environ.get("FAULTY_STOPS") == str(Mine.steps):
                raise RuntimeError("a fault of this attempt")
            with open(Path("FOLDER") / f"seen-{os.environ.get('RANK', '-')}", "ab") as file:
                file.write(x.detach()[:, 0].numpy().tobytes())
        return super().forward(x)
"""
"""model.py: it notes the first number of each row that it trains on."""
AT = 13


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_every_row_is_seen_once_in_each_epoch(
    before: int, after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = RECORDS.replace("FOLDER", str(tmp_path))
    with trainings(tmp_path, None, model=model, rows_per_day=600) as made:
        once = {"train.checkpoint.steps": AT - 1, "train.valid_days": 0, "train.epochs": 3}
        monkeypatch.setenv("FAULTY_STOPS", str(AT))
        with pytest.raises(RatchetError, match="a fault of this attempt"):
            made.train(plan(made, "before", **{**once, "resources.train.processes": before}))
        monkeypatch.delenv("FAULTY_STOPS")
        said: list[Event] = []
        found = trained(made.train(plan(made, "after", **{**once, "resources.train.processes": after}), said.append))
        assert found.resumed_from == AT - 1
        assert sorted({each.shards for each in found.segments}) == ([2] if after == 1 else [1, 2])
        seen = np.concatenate([np.fromfile(path, np.float32) for path in tmp_path.glob("seen-*")])
        _, counts = np.unique(seen, return_counts=True)
        assert counts.min() >= 3
        assert counts.sum() - 3 * len(counts) <= 128  # those of the step that failed, which was taken again
