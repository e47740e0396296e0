"""The peers of `quality`: boosted trees with their defaults, a constant, and the mean label of a column."""

from typing import Any

import lightgbm
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.tasksets import TaskSet
from ratchet.contracts.gate import lower_is_better

_DRAWN = 10
"""Rows that draw the mean of a category to the mean of all."""


def _tables(task: TaskSet) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of all days but the tested ones, and those of these, sorted by group."""
    days = [day.assign(_day=number) for number, day in enumerate(task.days)]
    found = []
    for some in (days[: -task.tested], days[-task.tested :]):
        table = pd.concat(some, ignore_index=True)
        if task.group is not None:
            table = table.sort_values(["_day", task.group], kind="stable")
        found.append(table)
    return found[0], found[1]


def _sizes(task: TaskSet, table: pd.DataFrame) -> NDArray[np.int64] | None:
    return None if task.group is None else table.groupby(["_day", task.group]).size().to_numpy().astype(np.int64)


def _measured(task: TaskSet, table: pd.DataFrame, scores: NDArray[np.float64]) -> float:
    sizes = _sizes(task, table)
    offsets = None if sizes is None else np.append(0, np.cumsum(sizes))
    found = task.measure(table[task.label].to_numpy(np.float64), offsets, scores)
    return float("nan") if found is None else found


def boost(task: TaskSet) -> float:
    """LightGBM with its defaults; categories as its own kind of column."""
    known, tested = _tables(task)
    for name in task.features("categorical"):
        values = pd.Index(known[name].dropna().unique())
        known[name] = pd.Categorical(known[name], categories=values)
        tested[name] = pd.Categorical(tested[name], categories=values)
    inputs, given = [*task.features("numeric"), *task.features("categorical")], known[task.label]
    found: Any
    if task.objective == "ranking":
        ranker = lightgbm.LGBMRanker(verbose=-1, n_jobs=1)
        found = ranker.fit(known[inputs], given.astype(int), group=_sizes(task, known)).predict(tested[inputs])
    elif task.objective == "binary":
        probabilities: Any = (
            lightgbm.LGBMClassifier(verbose=-1, n_jobs=1).fit(known[inputs], given).predict_proba(tested[inputs])
        )
        found = probabilities[:, 1]
    else:
        found = lightgbm.LGBMRegressor(verbose=-1, n_jobs=1).fit(known[inputs], given).predict(tested[inputs])
    return _measured(task, tested, found)


def constant(task: TaskSet) -> float:
    """The mean label for every row."""
    known, tested = _tables(task)
    return _measured(task, tested, np.full(len(tested), known[task.label].mean()))


def column_mean(task: TaskSet) -> float:
    """The mean label of a row's category, of the column where that is best."""
    known, tested = _tables(task)
    mean = known[task.label].mean()
    found = [constant(task)]
    for name in task.features("categorical"):
        by = known.groupby(name, observed=True)[task.label].agg(["sum", "count"])
        score = tested[name].map((by["sum"] + _DRAWN * mean) / (by["count"] + _DRAWN)).fillna(mean)
        found.append(_measured(task, tested, score.to_numpy(np.float64)))
    return min(found) if lower_is_better(task.metric) else max(found)
