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
_SURE = 2.0
"""Standard errors that a spread lies above what random labels give; else values tell nothing."""
_COUNT_STD = 0.5
"""The least deviation of a count, in logarithms: a smaller one is the chance by which values differ on few days."""


def label_sums(
    ids: NDArray[np.generic],
    label: NDArray[np.generic],
    weight: NDArray[np.generic] | None,
    columns: Sequence[int],
    counts: Ids,
    *,
    rows_at_once: int,
) -> Doubles:
    """Of each id in each of some columns, in the order of counts, see statistics.count_ids: float64 [n, 3].

    The weights of its rows, and their labels times their weights, summed in the order of rows; its rows with a weight
    above 0.
    """
    found = [np.zeros((0, 3))]
    for column in columns:
        known = counts[counts[:, 0] == column, 1]
        sums = np.zeros((len(known), 3))
        for begin in range(0, len(ids), rows_at_once):
            part = slice(begin, begin + rows_at_once)
            share = np.ones(len(ids[part])) if weight is None else weight[part].astype(np.float64)
            of_row = np.searchsorted(known, ids[part, column])
            for place, values in enumerate((share, label[part].astype(np.float64) * share, share > 0)):
                np.add.at(sums[:, place], of_row, values)
        found.append(sums)
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
    """Over some days. weight, label, rows: of some values. all_weight, all_label: of all rows."""

    weight: Doubles
    label: Doubles
    rows: Doubles
    all_weight: float
    all_label: float


class _Column:
    """The sums of one column: over the training days before each day, and over all days."""

    def __init__(self, source: Source, column: int) -> None:
        columns = sorted({place for place, _ in source.wanted})
        ids, rows, own = list[Ids](), list[Ids](), list[Doubles]()
        for counts, sums in zip(source.counts, source.sums, strict=True):
            of_any = np.isin(counts[:, 0], columns)
            chosen = counts[of_any, 0] == column
            ids.append(counts[of_any][chosen, 1])
            rows.append(counts[of_any][chosen, 2])
            own.append(sums[chosen])
        self.known, of_day = np.unique(np.concatenate(ids), return_inverse=True)
        self.rows = np.bincount(of_day, weights=np.concatenate(rows), minlength=len(self.known))
        self.places = np.split(of_day, np.cumsum([len(each) for each in ids])[:-1])
        learnt, every = np.zeros((len(self.known), 3)), np.zeros((len(self.known), 3))
        self.before = list[_Sums]()
        for day, places, sums in zip(source.days, self.places, own, strict=True):
            self.before.append(_sums(learnt[places], learnt))
            every[places] += sums
            if day in source.learnt:
                learnt[places] += sums
        self.all = _sums(every, every)
        self._mean = source.label.mean
        self._credibility = _credibility(_sums(learnt, learnt), source.label)

    def on(self, day: int, statistic: Statistic) -> Doubles:
        """A statistic of the values of a day, from the training days before it.

        NaN, for missing, without such rows: what a value gets that is not known would tell the labels of this day.
        """
        sums = self.before[day]
        return self.values(statistic, sums) if sums.all_weight else np.full(len(sums.weight), np.nan)

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
    weight, label, _ = every.sum(axis=0).tolist()
    own, of_label, rows = some.T.copy()
    return _Sums(weight=own, label=of_label, rows=rows, all_weight=weight, all_label=label)


def _credibility(sums: _Sums, label: Moments) -> float:
    """k, in the unit of weights; no less than the weight of a row. sums, label: of the training days."""
    seen = sums.weight > 0
    weight, values, total = sums.weight[seen], int(seen.sum()), sums.all_weight
    rows = float(sums.rows[seen].sum())
    if values < _FEWEST or rows <= values:
        return math.inf
    between = float((weight * np.square(sums.label[seen] / weight - label.mean)).sum())
    within = max(label.m2 - between, 0.0) / (rows - values)
    apart = between - (values - 1) * within
    if apart <= _SURE * within * _error(sums.rows[seen], label):
        return math.inf
    return max(within * (total - float(np.square(weight).sum()) / total) / apart, total / rows)


def _error(rows: Doubles, label: Moments) -> float:
    """Of `apart` where labels are random, its standard deviation in units of the variance within values.

    apart is a quadratic form of the labels (Searle, "Linear Models", 1971, 2.5, theorem 4): 2 tr(A^2) for normal ones,
    and the excess kurtosis times the sum of A_ii^2, which is much where labels of 1 are rare and values have few rows.
    The kurtosis is that of labels of 0 and 1; others are taken as normal. rows: of each value.
    """
    total, values = float(rows.sum()), len(rows)
    ratio = (values - 1) / (total - values)
    variance, chance = label.m2 / label.count, label.mean * (1 - label.mean)
    kurtosis = max(1 / variance - 6, 0.0) if variance and math.isclose(variance, chance, rel_tol=1e-6) else 0.0
    diagonal = (1 + ratio) / rows - 1 / total - ratio
    return math.sqrt(
        2 * (values - 1 + ratio**2 * (total - values)) + kurtosis * float((rows * np.square(diagonal)).sum())
    )


def fit_statistics(source: Source, vocabulary: Sequence[Ids], bins: int) -> Fitted:
    """Fit on all days. vocabulary: the ids that each categorical column knows, ascending. bins: of a number."""
    tables, numbers, of_edges = list[Doubles](), list[Moments](), list[Doubles]()
    replaced = [list[Replaced]() for _ in source.days]
    columns = {place: _Column(source, place) for place in dict.fromkeys(place for place, _ in source.wanted)}
    found = {place: np.searchsorted(column.known, vocabulary[place]) for place, column in columns.items()}
    known = {place: _known(column, found[place]) for place, column in columns.items()}
    nothing, begin = _sums(np.zeros((1, 3)), np.zeros((1, 3))), 0
    for place, statistic in source.wanted:
        column, chosen = columns[place], found[place]
        table = np.append(column.values(statistic, nothing), column.values(statistic, column.all)[chosen])
        for day, (is_known, places) in enumerate(known[place]):
            replaced[day].append(Replaced(begin + 1 + places, column.on(day, statistic)[is_known]))
        rows = np.append(column.rows.sum() - column.rows[chosen].sum(), column.rows[chosen])
        points = np.stack([np.zeros(len(table)), table, rows], axis=1)[rows > 0]
        one = moments(points[:, 1], weight=points[:, 2])
        if statistic == "count":
            one = one.model_copy(update={"m2": max(one.m2, _COUNT_STD**2 * one.count)})
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


def _known(column: _Column, found: Ids) -> list[tuple[NDArray[np.bool_], Ids]]:
    """Of each day, which of its values are known, and their numbers in the vocabulary. found: in the column."""
    number = np.full(len(column.known), -1)
    number[found] = np.arange(len(found))
    of_days = [number[places] for places in column.places]
    return [(each >= 0, each[each >= 0]) for each in of_days]
