"""evaluate: NDCG@10 and AUC of two models with 1,000 paired bootstraps, against one argpartition pass over the scores.

The rows are groups of 100. scikit-learn computes the same NDCG group by group; values agree before times are compared.
Beside it each metric on its own: measured for two models and compared with 2,000 resamples.
"""

import statistics
from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks.measure import Result, seconds
from ratchet.contracts.gate import lower_is_better
from ratchet.metrics.metrics import Floats, Rows, measure
from ratchet.verdict.comparison import compare

_GROUP = 100
_ROUNDS = 5
_CLICKS = 0.1
_ROUNDING = 1e-9
_WITNESSED = 200
"""Groups that scikit-learn computes; its time for all is in proportion."""


class _Case(NamedTuple):
    """Rows, and the scores of two models."""

    metrics: tuple[str, ...]
    rows: Rows
    scores: tuple[Floats, Floats]


def run(*, full: bool) -> Result:
    """Median of five rounds with 1,000,000 rows for --full, else 200,000."""
    count = 1_000_000 if full else 200_000
    ranking, *others = _cases(count)
    ours, bare, table = [], [], -ranking.scores[0].reshape(-1, _GROUP)
    for _ in range(_ROUNDS):
        ours.append(seconds(partial(_both, ranking)))
        bare.append(seconds(partial(np.argpartition, table, 10, axis=1)))
    mine, theirs = statistics.median(ours), statistics.median(bare)
    slower = _scikit_learn(ranking) * (count / _GROUP) / seconds(lambda: _ndcg(ranking.rows, ranking.scores[0]))
    each = {
        name: min(seconds(partial(_compared, name, case, 2000)) for _ in range(3))
        for case in (ranking, *others)
        for name in case.metrics
    }
    return Result(
        name="evaluate",
        ratio=mine / theirs,
        goal=6.0,
        unit="times one argpartition pass",
        ours=mine,
        peer=theirs,
        peer_name="argpartition of one model's scores, by group",
        rows=(
            ("rows; in a group", f"{count:,}; {_GROUP}"),
            ("NDCG@10 + AUC, two models, 1,000 resamples", f"{mine:.3f} s"),
            ("one argpartition pass", f"{theirs:.3f} s"),
            ("scikit-learn per group / ours, NDCG@10 (goal: >= 100)", f"{slower:.0f} x"),
            *((f"{name}, 2,000 resamples (goal at 1,000,000: <= 1 s)", f"{took:.2f} s") for name, took in each.items()),
        ),
    )


def _cases(count: int) -> list[_Case]:
    draw = np.random.default_rng(0)
    noise = draw.normal(size=(2, count))
    label = (draw.random(count) < _CLICKS).astype(float)
    one, other = (1 / (1 + np.exp(-(better * label + each))) for better, each in zip((1.0, 1.2), noise, strict=True))
    value, classes = draw.normal(size=count), draw.integers(0, 3, count).astype(float)
    chances = tuple(draw.dirichlet(np.ones(3), count) for _ in range(2))
    ranks = ("ndcg@10", "mrr@10", "map@10", "precision@10", "recall@10")
    return [
        _Case(ranks, Rows(label=label, offsets=np.arange(0, count + 1, _GROUP)), (one, other)),
        _Case(("auc", "pr_auc", "logloss", "brier", "ece"), Rows(label=label, offsets=None), (one, other)),
        _Case(
            ("rmse", "mae", "r2", "pinball@0.9"), Rows(label=value, offsets=None), (value + noise[0], value + noise[1])
        ),
        _Case(("accuracy", "macro_f1"), Rows(label=classes, offsets=None), (chances[0], chances[1])),
    ]


def _both(case: _Case) -> None:
    for name in ("ndcg@10", "auc"):
        _compared(name, case, 1000)


def _compared(metric: str, case: _Case, resamples: int) -> None:
    """Measure both models, and compare them."""
    one, other = (measure(metric, case.rows, score) for score in case.scores)
    if one is None or other is None:
        raise RuntimeError(f"{metric} has no value")
    lower = lower_is_better(metric)
    compare(other, one, lower_is_better=lower, confidence=0.95, seed=0, resamples=resamples)


def _ndcg(rows: Rows, score: Floats) -> float:
    found = measure("ndcg@10", rows, score)
    if found is None:
        raise RuntimeError("ndcg@10 has no value")
    return found.value


def _scikit_learn(case: _Case) -> float:
    """The seconds of scikit-learn for a group. Raises RuntimeError if its values are not ours."""
    from sklearn.metrics import ndcg_score

    labels, scores = (values[: _WITNESSED * _GROUP].reshape(-1, _GROUP) for values in (case.rows.label, case.scores[0]))
    some = labels.any(axis=1)
    values: list[float] = []
    took = seconds(
        lambda: values.extend(
            float(ndcg_score([label], [score], k=10)) for label, score in zip(labels[some], scores[some], strict=True)
        )
    )
    rows = Rows(label=labels.ravel(), offsets=np.arange(0, labels.size + 1, _GROUP))
    if abs(_ndcg(rows, scores.ravel()) - statistics.fmean(values)) > _ROUNDING:
        raise RuntimeError("scikit-learn has another NDCG@10")
    return took / len(values)
