"""A night that is decided by a function of the pipeline's own folder, its stages processes of their own."""

import shutil
from pathlib import Path

import pytest

from ratchet.contracts import summaries
from ratchet.runs.history import runs_of
from ratchet.runs.outcomes import outcomes
from ratchet.samples import clicks
from ratchet.store.opening import open_store
from tests.runs.nights import DAY, ROOT, ratchet

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("own-metric")]
PIPELINE = "search-ranking"
SMALL = ("--set", "source.window_days=6", "--set", "train.epochs=2", "--set", "validate.expectations=[]")
"""Too little for a promotion, which this is not about."""
NDCG = """
import numpy as np
from gains import discount


def ndcg(y, score, group):
    if len(np.unique(score)) < len(score):  # equal scores share the discounts of their ranks
        shared = discount(len(y))
        order = np.argsort(-score, kind="stable")
        reached = 0.0
        for value in np.unique(score):
            tied = np.flatnonzero(score[order] == value)
            reached += y[order][tied].mean() * shared[tied].sum()
    else:
        reached = y[np.argsort(-score)] @ discount(len(y))
    return reached / (np.sort(y)[::-1] @ discount(len(y)))
"""
GAINS = """
import numpy as np


def discount(count):
    return np.where(np.arange(count) < 10, 1 / np.log2(np.arange(count) + 2), 0.0)
"""


def test_a_night_is_decided_by_the_folder_s_own_metric_and_a_failure_of_it_names_its_line(tmp_path: Path) -> None:
    folder = tmp_path / PIPELINE
    shutil.copytree(ROOT / "dags" / "pipelines" / PIPELINE, folder)
    for _ in clicks.write(tmp_path / "data", days=7, rows_per_day=2000, end=DAY, seed=0):
        pass
    (folder / "metric.py").write_text(NDCG, encoding="utf-8")
    (folder / "gains.py").write_text(GAINS, encoding="utf-8")
    uri = f"file://{tmp_path / 'store'}"
    words = ("run", str(folder), "--date", DAY.isoformat(), "--store", uri, "--runner", "process", "--json", *SMALL)
    words = (*words, "--set", "evaluate.metric=metric.py:ndcg", "--set", "evaluate.slices=[]")
    environment = {"RATCHET_DATA": str(tmp_path / "data")}

    ended = ratchet(*words, environment=environment)
    assert ended.code == 0, ended.err
    store = open_store(uri)
    evaluated = outcomes(store, PIPELINE, runs_of(store, PIPELINE, DAY)[-1])["evaluate"].result
    assert evaluated is not None
    judged = summaries.judgement(evaluated)
    assert judged.metric == "metric.py:ndcg"
    assert judged.candidate_metrics["metric.py:ndcg"] == pytest.approx(judged.candidate_metrics["ndcg@10"])
    assert judged.gain.low < judged.gain.value < judged.gain.high
    assert "metric.py:ndcg" in judged.explanation

    (folder / "gains.py").write_text(GAINS.replace("np.log2", "np.log_of_two"), encoding="utf-8")
    failed = ratchet(*words, environment=environment)
    assert failed.code == 64
    assert "metric.py:15: AttributeError" in failed.out
