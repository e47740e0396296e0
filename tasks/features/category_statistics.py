"""Statistics of categories: sums of labels of a day by value, and what a model learns from those of many days.

A row of a training or validation day gets the sums over the training days before it, as a model that was fitted on
these days would give it (Prokhorenkova et al. 2018, "CatBoost: unbiased boosting with categorical features", 3.2, with
days for rows). All other rows get those over all days that the model is fitted on. The sums over all days but its own
would tell a row its own label: it is what they lack. docs/adr/045 has what that costs.

target_mean is m + w / (w + k) * (mean label of the value - mean label of all rows of the same days), for rows of the
value with the weight w. m is the mean label of the training days. k is the variance of labels around the mean of their
value, over that of these means (Buehlmann and Straub 1970, credibility; an empirical Bayes estimate): infinite where
values tell nothing. count is log(1 + w), with w scaled to the rows of all days. m and k are constants of a column: they
are the only way from the label of a row to its own statistic, and the same for all rows.

A change here violates the promise of the project when a statistic of a row holds a label of its day or of a later one,
apart from these constants, or when its bits depend on anything but the days.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from ratchet.contracts.columns import Statistic
from ratchet.model.fitted_state import Doubles, Replaced
from tasks.features.quantiles import edges
from tasks.features.statistics import Moments, moments

Ids = NDArray[np.int64]
_FEWEST = 2
"""Values, for their means to have a spread."""


def label_sums(
    ids: NDArray[np.generic], label: NDArray[np.generic], weight: NDArray[np.generic] | None, columns: Sequence[int]
) -> Doubles:
    """Of each id in each of some columns, in the order of statistics.count_ids: float64 [n, 2] of weights and labels.

    The weights of its rows, and their labels times their weights, summed in the order of rows.
    """
    share = np.ones(len(ids)) if weight is None else weight.astype(np.float64)
    labels = label.astype(np.float64) * share
    found = [np.zeros((0, 2))]
    for column in columns:
        unique, of_row = np.unique(ids[:, column], return_inverse=True)
        sums = [np.bincount(of_row, values, minlength=len(unique)) for values in (share, labels)]
        found.append(np.stack(sums, axis=1))
    return np.concatenate(found)


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """What statistics are made of.

    wanted: of which categorical column, and which one, in the order of the network. days: ascending; counts, sums: of
    each, as statistics.count_ids and `label_sums` make them. learnt: the training days; the others are for validation.
    label: of the training days.
    """

    wanted: Sequence[tuple[int, Statistic]]
    days: Sequence[date]
    counts: Sequence[Ids]
    sums: Sequence[Doubles]
    learnt: Collection[date]
    label: Moments


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """statistics, of_days: as FittedState has them. numbers, edges: of each statistic, as new rows get it.

    Not of the rows as they are trained on: bins between the numbers of a value on two days would tell the day.
    """

    statistics: Doubles
    of_days: dict[date, Replaced]
    numbers: tuple[Moments, ...]
    edges: tuple[Doubles, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sums:
    """Over some days. weight, label: of some values. all_weight, all_label: of all rows."""

    weight: Doubles
    label: Doubles
    all_weight: float
    all_label: float


class _Column:
    """The sums of one column: over the training days before each day, and over all days."""

    def __init__(self, source: Source, column: int) -> None:
        columns = sorted({place for place, _ in source.wanted})
        self.ids, rows, own = list[Ids](), list[Ids](), list[Doubles]()
        for counts, sums in zip(source.counts, source.sums, strict=True):
            of_any = np.isin(counts[:, 0], columns)
            chosen = counts[of_any, 0] == column
            self.ids.append(counts[of_any][chosen, 1])
            rows.append(counts[of_any][chosen, 2])
            own.append(sums[chosen])
        self.known, of_day = np.unique(np.concatenate(self.ids), return_inverse=True)
        self.rows = np.bincount(of_day, weights=np.concatenate(rows), minlength=len(self.known))
        days = np.split(of_day, np.cumsum([len(ids) for ids in self.ids])[:-1])
        learnt, every = np.zeros((len(self.known), 2)), np.zeros((len(self.known), 2))
        self.before = list[_Sums]()
        for day, places, sums in zip(source.days, days, own, strict=True):
            self.before.append(_sums(learnt[places], learnt))
            every[places] += sums
            if day in source.learnt:
                learnt[places] += sums
        self.all = _sums(every, every)
        self._mean = source.label.mean
        observed = sum(int(each.sum()) for day, each in zip(source.days, rows, strict=True) if day in source.learnt)
        self._credibility = _credibility(_sums(learnt, learnt), source.label, observed)

    def values(self, statistic: Statistic, sums: _Sums) -> Doubles:
        """A statistic of values with these sums. Without a row, what is given for a value that is not known."""
        seen = sums.weight > 0
        weight = np.where(seen, sums.weight, 1.0)
        if statistic == "count":
            scaled = np.log1p(weight * (self.all.all_weight / (sums.all_weight or 1.0)))
            return np.where(seen, scaled, 0.0)
        share = weight / (weight + self._credibility)
        apart = sums.label / weight - sums.all_label / (sums.all_weight or 1.0)
        return np.where(seen, self._mean + share * apart, self._mean)


def _sums(some: Doubles, every: Doubles) -> _Sums:
    weight, label = every.sum(axis=0).tolist()
    return _Sums(weight=some[:, 0].copy(), label=some[:, 1].copy(), all_weight=weight, all_label=label)


def _credibility(sums: _Sums, label: Moments, rows: int) -> float:
    """k, in the unit of weights; no less than the weight of a row. sums, label, rows: of the training days."""
    seen = sums.weight > 0
    weight, values, total = sums.weight[seen], int(seen.sum()), sums.all_weight
    if values < _FEWEST or rows <= values:
        return math.inf
    between = float((weight * np.square(sums.label[seen] / weight - label.mean)).sum())
    within = max(label.m2 - between, 0.0) / (rows - values)
    spread = (between - (values - 1) * within) / (total - float(np.square(weight).sum()) / total)
    return max(within / spread, total / rows) if spread > 0 else math.inf


def fit_statistics(source: Source, vocabulary: Sequence[Ids], bins: int) -> Fitted:
    """Fit on all days. vocabulary: the ids that each categorical column knows, ascending. bins: of a number."""
    tables, numbers, of_edges = list[Doubles](), list[Moments](), list[Doubles]()
    replaced = [list[Replaced]() for _ in source.days]
    columns = {place: _Column(source, place) for place, _ in source.wanted}
    begin = 0
    for place, statistic in source.wanted:
        column, known = columns[place], vocabulary[place]
        unknown = column.values(statistic, _sums(np.zeros((1, 2)), np.zeros((1, 2))))
        found = np.searchsorted(column.known, known)
        table = np.append(unknown, column.values(statistic, column.all)[found])
        for of_day, ids, before in zip(replaced, column.ids, column.before, strict=True):
            is_known = np.isin(ids, known)
            places = begin + 1 + np.searchsorted(known, ids[is_known])
            of_day.append(Replaced(places, column.values(statistic, before)[is_known]))
        rows = np.append(column.rows.sum() - column.rows[found].sum(), column.rows[found])
        points = np.stack([np.zeros(len(table)), table, rows], axis=1)[rows > 0]
        one = moments(points[:, 1], weight=points[:, 2])
        tables.append(table)
        numbers.append(one)
        of_edges.append((edges([points], 0, bins) - one.mean) / one.std)
        begin += len(table)
    return Fitted(
        statistics=np.concatenate(tables),
        of_days={
            day: Replaced(*(np.concatenate(each) for each in zip(*parts, strict=True)))
            for day, parts in zip(source.days, replaced, strict=True)
        },
        numbers=tuple(numbers),
        edges=tuple(of_edges),
    )
