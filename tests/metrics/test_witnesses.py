"""All metrics against torchmetrics, a library that has its own code for them; scikit-learn is in test_metrics.py.

Its metrics of ranks break ties by position and know no weights; its metrics of all rows know no weights either, but
torch's losses do.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional
from torchmetrics import classification, regression, retrieval

from ratchet.metrics.metrics import Floats, Rows, measure

SEEDS = st.integers(0, 2**32 - 1)


def value(metric: str, label: Floats, score: Floats, **rows: Any) -> float:
    found = measure(metric, Rows(label=label.astype(float), offsets=rows.pop("offsets", None), **rows), score)
    assert found is not None
    return found.value


def tensor(values: Floats, kind: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).to(kind)


RANKS: dict[str, Callable[[int], torchmetrics.Metric]] = {
    "ndcg": lambda cut: retrieval.RetrievalNormalizedDCG(empty_target_action="skip", top_k=cut),
    "mrr": lambda cut: retrieval.RetrievalMRR(empty_target_action="skip", top_k=cut),
    "map": lambda cut: retrieval.RetrievalMAP(empty_target_action="skip", top_k=cut),
    "precision": lambda cut: retrieval.RetrievalPrecision(empty_target_action="skip", top_k=cut),
    "recall": lambda cut: retrieval.RetrievalRecall(empty_target_action="skip", top_k=cut),
}


@pytest.mark.parametrize("name", list(RANKS))
@given(SEEDS, st.integers(1, 12), st.integers(1, 30))
def test_metrics_of_ranks(name: str, seed: int, cut: int, groups: int) -> None:
    """Groups of several sizes and without a positive; labels with grades for NDCG."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, 15, groups)
    rows = int(sizes.sum())
    label = draw.integers(0, 4 if name == "ndcg" else 2, rows) * (draw.random(rows) < 0.4)
    label[0] = 1
    score = draw.permutation(rows) + 1.0  # to it a score of 0 is a row that was not found
    group = np.repeat(np.arange(groups), sizes)
    cut = 15 if name == "map" else cut  # it divides by the positives among the first `cut`, we by all that fit there
    witness = RANKS[name](cut)
    witness.update(tensor(score), tensor(label, torch.int64), indexes=tensor(group, torch.int64))
    found = value(f"{name}@{cut}", label, score, offsets=np.append(0, np.cumsum(sizes)))
    assert found == pytest.approx(float(witness.compute()), abs=2e-6)  # it computes in float32


PROBABILITIES: dict[str, Callable[[], torchmetrics.Metric]] = {
    "auc": classification.BinaryAUROC,
    "pr_auc": classification.BinaryAveragePrecision,
    "ece": lambda: classification.BinaryCalibrationError(n_bins=15, norm="l1"),
}


@pytest.mark.parametrize("name", list(PROBABILITIES))
@given(SEEDS, st.sampled_from([1, 2, 15]), st.integers(2, 300))
def test_metrics_of_probabilities_with_and_without_ties(name: str, seed: int, decimals: int, rows: int) -> None:
    draw = np.random.default_rng(seed)
    label = draw.integers(0, 2, rows)
    label[:2] = 0, 1
    score = np.round(draw.random(rows), decimals)
    if name == "ece":
        score = (np.floor(score * 14.999) + draw.random(rows) * 0.9 + 0.05) / 15  # inside a bin: edges are a convention
        predicted = tensor(np.where(label >= 0, score, 0.0))
        expected = calibration(predicted, label)
    else:
        witness = PROBABILITIES[name]()
        witness.update(tensor(score), tensor(label, torch.int64))
        expected = float(witness.compute())
    assert value(name, label, score) == pytest.approx(expected, abs=2e-6)


def calibration(score: torch.Tensor, label: Floats) -> float:
    witness = PROBABILITIES["ece"]()
    witness.update(score, tensor(label, torch.int64))
    return float(witness.compute())


@given(SEEDS, st.integers(2, 200), st.booleans())
def test_losses_of_probabilities_with_and_without_weights(seed: int, rows: int, weighted: bool) -> None:
    draw = np.random.default_rng(seed)
    label, score = draw.integers(0, 2, rows).astype(float), np.clip(np.round(draw.random(rows), 1), 0.01, 0.99)
    weight = draw.integers(0, 4, rows) + 0.25 if weighted else np.ones(rows)
    scale = weight.mean()
    surprise = functional.binary_cross_entropy(tensor(score), tensor(label), weight=tensor(weight))
    assert value("logloss", label, score, weight=weight) == pytest.approx(float(surprise) / scale)
    distance = functional.mse_loss(tensor(score), tensor(label), weight=tensor(weight), reduction="sum")
    assert value("brier", label, score, weight=weight) == pytest.approx(float(distance) / weight.sum())


@given(SEEDS, st.integers(20, 200))
def test_metrics_of_values(seed: int, rows: int) -> None:
    draw = np.random.default_rng(seed)
    label, score = np.round(draw.normal(size=(2, rows)), 1) + np.arange(rows) % 2
    witnesses = {
        "rmse": regression.MeanSquaredError(squared=False),
        "mae": regression.MeanAbsoluteError(),
        "r2": regression.R2Score(),
    }
    for name, witness in witnesses.items():
        witness.set_dtype(torch.float64)
        witness.update(tensor(score), tensor(label))
        assert value(name, label, score) == pytest.approx(float(witness.compute()), rel=1e-5, abs=1e-6)


@given(SEEDS, st.integers(10, 200), st.integers(2, 5))
def test_metrics_of_classes(seed: int, rows: int, classes: int) -> None:
    draw = np.random.default_rng(seed)
    label, score = draw.integers(0, classes, rows), draw.dirichlet(np.ones(classes), rows)
    f1 = classification.MulticlassF1Score(classes, average="macro")
    right = classification.MulticlassAccuracy(classes, average="micro")
    for name, witness in {"macro_f1": f1, "accuracy": right}.items():
        witness.update(tensor(score), tensor(label, torch.int64))
        assert value(name, label, score) == pytest.approx(float(witness.compute()), abs=1e-6)
    surprise = functional.nll_loss(tensor(np.log(np.clip(score, 1e-7, 1))), tensor(label, torch.int64))
    assert value("logloss", label, score) == pytest.approx(float(surprise))


@given(SEEDS, st.floats(0.01, 0.99), st.integers(1, 100))
def test_the_quantile_loss_is_least_at_the_quantile(seed: int, share: float, rows: int) -> None:
    """No second library on the machine has it: NumPy's quantile is the value that it must be least at."""
    label = np.random.default_rng(seed).normal(size=rows)
    name = f"pinball@{round(share, 2)}"
    best = np.quantile(label, round(share, 2), method="inverted_cdf")
    least = value(name, label, np.full(rows, best))
    assert all(least <= value(name, label, np.full(rows, other)) + 1e-12 for other in (*label, best - 1, best + 1))
