from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.metrics.metrics import Rows
from ratchet.metrics.own import BLOCKS
from ratchet.model.own_metric import PipelineMetrics
from tests.shop import SPEC

ROWS = Rows(label=np.tile([0.0, 1.0], 50), offsets=None, weight=np.tile([1.0, 3.0], 50))
SCORE = np.linspace(0, 1, 100)


def spec(objective: str = "binary", *, weighted: bool = False, **changes: Any) -> PipelineSpec:
    columns = dict(SPEC["columns"])
    if weighted:
        columns["trust"] = {"role": "weight", "type": "float64"}
    document = {**SPEC, "columns": columns, "evaluate": {"metric": "metric.py:own"}, "train": {"objective": objective}}
    return PipelineSpec.model_validate({**document, **changes})


def metrics(folder: Path, code: str, made: PipelineSpec | None = None) -> PipelineMetrics:
    (folder / "metric.py").write_text(code)
    return PipelineMetrics(made or spec(), folder)


def test_the_function_gets_the_rows_and_returns_the_value(tmp_path: Path) -> None:
    found = metrics(tmp_path, "def own(y, score, group):\n    assert group is None\n    return (y * score).mean()\n")
    expected = float((ROWS.label * SCORE).mean())
    plain = Rows(label=ROWS.label, offsets=None)
    measured = found.measure("metric.py:own", plain, SCORE)
    assert measured is not None
    assert measured.value == pytest.approx(expected)
    assert found.value("metric.py:own", plain, SCORE) == pytest.approx(expected)
    assert len(measured.sums) == min(100, BLOCKS)
    assert measured.effective == 50  # rows with a positive label, and as many without


def test_where_rows_have_weights_the_function_gets_them(tmp_path: Path) -> None:
    code = "def own(y, score, group, weight):\n    return (weight * score).sum() / weight.sum()\n"
    found = metrics(tmp_path, code, spec(weighted=True))
    assert found.value("metric.py:own", ROWS, SCORE) == pytest.approx(np.average(SCORE, weights=ROWS.weights))


def test_in_a_ranking_it_gets_one_group_at_a_time_and_the_mean_is_by_weight(tmp_path: Path) -> None:
    columns = {**SPEC["columns"], "trust": {"role": "weight", "type": "float64"}}
    assert any(column.get("role") == "group" for column in columns.values())
    code = "def own(y, score, group):\n    assert set(group) == {0}\n    return score[0]\n"
    found = metrics(tmp_path, code, spec("ranking", columns=columns))
    rows = Rows(label=np.ones(6), offsets=np.array([0, 2, 6]), weight=np.array([1.0, 1, 3, 3, 3, 3]))
    measured = found.measure("metric.py:own", rows, np.array([1.0, 0, 0, 0, 0, 0]))
    assert measured is not None
    assert measured.value == pytest.approx(0.25)
    assert found.is_of_groups("metric.py:own")
    assert not found.is_of_groups("ndcg@10")


def test_metrics_of_ours_are_measured_as_ever(tmp_path: Path) -> None:
    found = metrics(tmp_path, "def own(y, score, group):\n    return 1.0\n")
    measured = found.measure("auc", ROWS, SCORE)
    assert measured is not None
    assert found.value("auc", ROWS, SCORE) == measured.value


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def other(): ...\n", "metric.py: own is not defined"),
        ("own = 3\n", "metric.py: own is an int, not a function"),
        ("\ndef own(y, score): ...\n", "metric.py:2: own(y, score) has the wrong parameters"),
        ("import nothing_of_this_name\n", "metric.py:1: ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("def own(y, score, group):\n    return y[1000]\n", "metric.py:2: IndexError"),
        (
            "def own(y, score, group):\n    y[0] = 1\n    return 1.0\n",
            "metric.py:2: ValueError: assignment destination",
        ),
        ("import sys\ndef own(y, score, group):\n    sys.exit(0)\n", "metric.py:3: SystemExit"),
        ("def own(y, score, group):\n    return None\n", "metric.py:1: own returned None"),
        ("def own(y, score, group):\n    return score\n", "metric.py:1: own returned an array of shape [100]"),
        ("def own(y, score, group):\n    return True\n", "metric.py:1: own returned a bool"),
        (
            "import itertools\ncount = itertools.count()\ndef own(y, score, group):\n    return next(count)\n",
            "metric.py:3: own returned 0 and then 1 for the same rows",
        ),
    ],
)
def test_a_function_that_fails_is_one_line_with_its_place_and_no_value(tmp_path: Path, code: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        metrics(tmp_path, code).measure("metric.py:own", ROWS, SCORE)
    assert raised.value.cause.startswith(said)
    assert "\n" not in raised.value.cause
    assert raised.value.remedy


def test_without_the_file_it_is_said_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"there is no metric\.py"):
        PipelineMetrics(spec(), tmp_path)


@pytest.mark.parametrize("value", ["float('nan')", "float('inf')"])
def test_a_value_that_is_not_finite_is_none(tmp_path: Path, value: str) -> None:
    found = metrics(tmp_path, f"def own(y, score, group):\n    return {value}\n")
    assert found.measure("metric.py:own", ROWS, SCORE) is None
    assert found.value("metric.py:own", ROWS, SCORE) is None
