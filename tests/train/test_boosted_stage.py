"""The stage train with boosted trees, as it runs in a night."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ratchet.contracts import summaries
from ratchet.contracts.errors import ConfigurationError, RatchetError
from ratchet.metrics.metrics import Rows, constant, measure
from ratchet.model.fitted_state import FittedState
from tasks.features.fitting import BINS
from tasks.features.quantiles import edges, summarise
from tasks.train.boosting import Boosting
from tasks.train.building import fit
from tasks.train.step_losses import NotFinite
from tests.train.test_boosting import model as trees
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


@pytest.mark.parametrize("sentinel", [999999999.0, -1e15])
def test_a_sentinel_takes_nothing_from_the_other_numbers(sentinel: float) -> None:
    values = np.random.default_rng(0).random((4000, 2))
    values[::50, 0] = sentinel
    mean, std = values.mean(0), values.std(0)
    ends = tuple(
        (edges([summarise(values[:, column], 0, None)], 0, BINS) - mean[column]) / std[column] for column in (0, 1)
    )
    made = fit(trees("binary"), FittedState(mean=mean, std=std, edges=ends, vocabulary=(np.arange(10),)))
    read = made.inputs(made.preprocess.standardise(torch.from_numpy(values)), torch.zeros(4000, 1, dtype=torch.int32))
    for column in (0, 1):
        assert len(np.unique(read[:, column])) > 0.99 * len(np.unique(values[:, column]))


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        (MemoryError(), ConfigurationError, "and train ran out of memory with"),
        (NotFinite("the loss is nan after round 1"), RatchetError, "to do: lower train.model.rate; limit the label"),
    ],
)
def test_an_ending_without_a_model_has_a_remedy_for_trees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: Exception, kind: type[RatchetError], message: str
) -> None:
    def fail(_: Boosting) -> None:
        raise raised

    monkeypatch.setattr(Boosting, "run", fail)
    with pytest.raises(kind, match=message):
        nights(tmp_path, "binary").train()
