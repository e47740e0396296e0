"""The best label by each column of the training days: what a first model has to beat beside a constant.

It is the mean; for the mean absolute error the median, for a quantile loss the quantile. In a ranking the mean is the
popularity of an item. Means are drawn to the mean of all rows as if each value had some rows
of that mean more (additive smoothing), so a rare value says little; a value that training did not have says nothing.
"""

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd

from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.snapshot import Snapshot
from ratchet.metrics.metrics import Codes, Floats, quantile, quantile_of
from ratchet.model.holdout import Holdout
from ratchet.model.rows import read_rows
from ratchet.store.artifacts import fetch
from ratchet.store.base import Store
from tasks.evaluate.night import Table

_PRIOR = 10
"""Rows of the common mean that each value has in addition."""
_COLUMNS = frozenset({"categorical", "id"})
_MOST = 200_000
"""Values of a column; with more, hardly a value of the held-out rows was there before."""


def tables(
    store: Store, spec: PipelineSpec, snapshot: Snapshot, days: Sequence[date], held: Holdout, scratch: Path
) -> Iterator[Table]:
    """A table of each categorical and id column that the source has. days: those that the candidate was trained on."""
    names = [
        name
        for name, column in spec.columns.items()
        if column.role in _COLUMNS and not column.derived and not column.is_list
    ]
    weights = spec.with_role("weight")
    read = {name: spec.columns[name] for name in (*names, spec.label, *weights)}
    files = [day.file for day in snapshot.days if day.day in set(days)]
    if not names or not files:
        return
    frame = pd.concat([read_rows(fetch(store, file, scratch), read) for file in files], ignore_index=True)
    frame = frame[frame[spec.label].notna()]
    label = _targets(frame[spec.label].to_numpy(np.float64), spec)
    weight = frame[weights[0]].to_numpy(np.float64) if weights else np.ones(len(frame))
    if not weight.sum() > 0:
        return
    share = quantile_of(spec.metric)
    for name in names:
        scores = (
            _means(frame[name], label, weight, held.frame[name])
            if share is None
            else _quantiles(frame[name], label[:, 0], weight, held.frame[name], share)
        )
        if scores is not None:
            yield Table(column=name, scores=scores if spec.train.objective == "multiclass" else scores[:, 0])


def _targets(label: Floats, spec: PipelineSpec) -> Floats:
    """What is averaged [rows, k]: the label, or for classes a column for each."""
    if spec.train.objective != "multiclass":
        return label[:, None]
    classes = len(spec.columns[spec.label].allowed or ()) or int(label.max()) + 1
    return np.asarray(label[:, None] == np.arange(classes), dtype=np.float64)


def _means(values: pd.Series, target: Floats, weight: Floats, asked: pd.Series) -> Floats | None:
    """The mean of each target [rows asked, k] by the value of a column; None where the column has too many values."""
    codes, unique = pd.factorize(values, use_na_sentinel=False)
    if len(unique) > _MOST:
        return None
    mean = np.average(target, axis=0, weights=weight)
    count = np.bincount(codes, weight, minlength=len(unique))
    sums = np.stack([np.bincount(codes, weight * column, minlength=len(unique)) for column in target.T], axis=1)
    by_value = (sums + _PRIOR * mean) / (count + _PRIOR)[:, None]
    place = pd.Index(unique).get_indexer(pd.Index(asked))
    return np.where((place >= 0)[:, None], by_value[place], mean)


def _quantiles(values: pd.Series, label: Floats, weight: Floats, asked: pd.Series, share: float) -> Floats | None:
    """A quantile of the label [rows asked, 1] by the value of a column, drawn to that of all rows as means are."""
    codes, unique = pd.factorize(values, use_na_sentinel=False)
    if len(unique) > _MOST:
        return None
    common = quantile(label, weight, share)
    order = np.lexsort((label, codes))
    each = _quantile_of_each(codes[order], label[order], weight[order], len(unique), share)
    count = np.bincount(codes, weight, minlength=len(unique))
    by_value = (count * each + _PRIOR * common) / (count + _PRIOR)
    place = pd.Index(unique).get_indexer(pd.Index(asked))
    return np.where(place >= 0, by_value[place], common)[:, None]


def _quantile_of_each(codes: Codes, label: Floats, weight: Floats, count: int, share: float) -> Floats:
    """The quantile of each code [count], from rows in the order of code and label; the first label of no weight."""
    ends = np.cumsum(np.bincount(codes, minlength=count))
    reached = np.append(0.0, np.cumsum(weight))
    begins = np.append(0, ends[:-1])
    before, total = reached[begins], reached[ends] - reached[begins]
    lower, upper = (
        np.clip(np.searchsorted(reached[1:], before + total * share, side=side), begins, ends - 1)
        for side in ("left", "right")
    )
    return np.asarray((label[lower] + label[upper]) / 2)
