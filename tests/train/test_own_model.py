"""docs/own-code.md on model.py, for each objective: the assertions of the network and of the loss are what it promises."""

from pathlib import Path

import numpy as np
import pytest

from ratchet.contracts import summaries
from tests.features.encoding import validated
from tests.train.test_stage import COLUMNS, DAYS, LABELS, METRIC, ROWS, Trainings, day_rows
from tests.world import clicks

CODE = """
import torch
from torch import nn

OBJECTIVE, GROUPS, WEIGHTS, FLAT = {objective!r}, {groups!r}, {weights!r}, {flat!r}
OUT = 3 if OBJECTIVE == "multiclass" else 1
seen = set()


class Mine(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        assert type(inputs) is int and inputs == 2 * 1 + 4 * 1, inputs
        assert torch.is_grad_enabled()
        self.head = nn.Linear(inputs, OUT)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        assert x.dtype == torch.float32 and x.dim() == 2 and x.shape[1] == 6, x.shape
        price, missing = x[:, 0], x[:, 1]
        assert price.abs().max() <= 10 and set(missing.tolist()) <= {{0.0, 1.0}}
        assert (price[missing == 1] == 0).all()
        assert next(self.parameters()).dtype == torch.float32
        if self.training:
            self.calls += 1
        out = self.head(x)
        return out.flatten() if FLAT else out


def loss(scores, labels, weights, groups):
    rows = len(labels)
    assert scores.dtype == torch.float32
    assert scores.shape == ((rows, 3) if OBJECTIVE == "multiclass" else (rows,)), scores.shape
    assert labels.dtype == (torch.int64 if OBJECTIVE == "multiclass" else torch.float32)
    assert (weights is None) is not WEIGHTS and (groups is None) is not GROUPS
    if weights is not None:
        assert weights.dtype == torch.float32 and weights.shape == (rows,)
    if groups is not None:
        assert groups.dtype == torch.int64 and groups[0] == 0 and set(groups.diff().tolist()) <= {{0, 1}}
        if scores.requires_grad:
            assert rows == 24 or (groups.bincount() == 10).all()  # whole: ten rows each, but for the trial's
    if OBJECTIVE == "regression":
        assert labels.abs().mean() < 2 and rows < 100 or 0.5 < labels.std() < 1.5  # standardised
    if OBJECTIVE == "multiclass":
        return nn.functional.cross_entropy(scores, labels)
    if OBJECTIVE == "regression":
        return (scores - labels).square().mean()
    return nn.functional.binary_cross_entropy_with_logits(scores, labels)
"""


def trainings(folder: Path, objective: str, *, groups: bool, weights: bool, flat: bool) -> Trainings:
    columns = {**COLUMNS, "clicked": {**COLUMNS["clicked"], **LABELS[objective]}}
    columns["query"] = {"role": "group" if groups else "ignore", "type": "int64"}
    if weights:
        columns["worth"] = {"role": "weight", "type": "float64"}
    nights = clicks(
        folder,
        source={"window_days": 4},
        columns=columns,
        train={"objective": objective, "epochs": 2, "batch_size": 128, "model": {"kind": "model.py:Mine", "embedding_dim": 4}},
        evaluate={"metric": METRIC[objective]},
        resources={"train": {"cpus": 1}},
    )  # fmt: skip
    code = CODE.format(objective=objective, groups=groups, weights=weights, flat=flat)
    (nights.pipeline / "model.py").write_text(code, encoding="utf-8")
    for day in DAYS:
        nights.put(day, {**day_rows(day, objective), **({"worth": np.ones(ROWS)} if weights else {})})
    ingest = nights.run("ingest")
    validate = validated(nights, ingest)
    features = nights.run("features", inputs={"ingest": ingest, "validate": validate})
    return Trainings(nights, {"ingest": ingest, "validate": validate, "features": features})


@pytest.mark.parametrize(
    ("objective", "groups", "weights", "flat"),
    [
        ("ranking", True, False, True),
        ("binary", False, False, True),
        ("binary", True, True, False),
        ("regression", False, True, False),
        ("multiclass", False, False, False),
    ],
)
def test_a_network_and_a_loss_are_called_as_the_page_says(
    tmp_path: Path, objective: str, groups: bool, weights: bool, flat: bool
) -> None:
    made = trainings(tmp_path, objective, groups=groups, weights=weights, flat=flat)
    published = made.train()
    assert summaries.trained(published.result).evaluations[-1].epoch == pytest.approx(2, abs=0.2)
    _, scores = made.scores(published, tmp_path / "laid")
    assert scores.shape == ((ROWS, 3) if objective == "multiclass" else (ROWS,))
    if objective == "multiclass":
        assert np.allclose(scores.sum(axis=1), 1)
    if objective == "binary":
        assert 0 < scores.min() < scores.max() < 1
    if objective == "regression":
        assert 80 < scores.mean() < 120  # in the unit of the label, whose mean is 100
