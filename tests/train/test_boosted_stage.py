"""The stage train with boosted trees, as it runs in a night."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratchet.contracts import summaries
from ratchet.metrics.metrics import Rows, constant, measure
from tests.train.test_stage import LABELS, METRIC, ROWS, Trainings, prepare


def nights(folder: Path, objective: str, **model: Any) -> Trainings:
    """Nights up to features, of a pipeline that says nothing but the kind, and what `model` says."""
    trainings = prepare(folder, objective)
    trainings.nights.document["train"] = {"objective": objective, "model": {"kind": "lightgbm", **model}}
    return trainings


@pytest.mark.parametrize("objective", LABELS)
def test_trees_beat_a_constant_on_held_out_rows(tmp_path: Path, objective: str) -> None:
    trainings = nights(tmp_path, objective)
    published = trainings.train()
    trained = summaries.trained(published.result)
    assert trained.fall == trained.level == trained.evaluations[trained.best - 1].step
    assert trained.trees == trained.fall * (3 if objective == "multiclass" else 1)
    df, scores = trainings.scores(published, tmp_path / "model")
    rows = Rows(label=df["clicked"].to_numpy(np.float64), offsets=np.arange(0, ROWS + 1, 10))
    metric = METRIC[objective]
    found, baseline = (measure(metric, rows, each) for each in (scores, constant(objective, metric, rows)))  # type: ignore[arg-type]  # a parameter is any text
    assert found is not None
    assert baseline is not None
    if metric == "rmse":
        assert found.value < 0.8 * baseline.value
    else:
        assert found.value > baseline.value + 0.1
