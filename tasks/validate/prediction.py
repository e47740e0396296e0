"""How well one column alone predicts the label: a value close to 1 on real data is a leak.

Measured on at most 20,000 rows of a day, by a hash of their number, so that memory is bounded, the same rows give the
same number, and an order of rows that repeats does not matter. Of two classes it is |2 AUC - 1|; of several classes the
largest of each against the rest; of a ranking that of labels above 0 against the rest; of numbers Spearman's rank
correlation, without its sign. A category predicts by the mean label of the other half of the rows, so that one that
hardly repeats predicts nothing. A missing value is the least one.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

from ratchet.contracts.columns import Column

_ROWS = 20_000
_FEWEST = 8
"""Rows of each of two classes, or half as many labelled rows, below which chance alone can predict."""
_MOST_CLASSES = 10
_PRIOR = 1.0

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


class Labels:
    """The labels of a sample of a day's rows."""

    def __init__(self, label: pl.Series, objective: str) -> None:
        hashes = _hashes(len(label))
        self._rows = np.sort(np.argpartition(hashes, _ROWS)[:_ROWS]) if len(label) > _ROWS else np.arange(len(label))
        values = label.gather(self._rows).cast(pl.Float64).to_numpy()
        self._present = np.isfinite(values)
        numbers = values[self._present]
        self._half = np.zeros(len(numbers), np.int64)
        self._half[np.argsort(hashes[self._rows][self._present])[::2]] = 1
        self._regression = objective == "regression"
        if self._regression:
            ranks = _ranks(np.unique(numbers, return_inverse=True)[1].ravel())
            self._targets = [ranks] if len(ranks) >= 2 * _FEWEST and ranks.std() else []
            return
        if objective == "ranking":
            numbers = (numbers > 0).astype(np.float64)
        classes, rows = np.unique(numbers, return_counts=True)
        frequent = classes[np.argsort(-rows, kind="stable")][:_MOST_CLASSES]
        if objective != "multiclass":  # of two classes one is enough
            frequent = frequent[:1]
        targets = [numbers == one for one in frequent]
        self._targets = [one.astype(np.float64) for one in targets if _FEWEST <= one.sum() <= len(one) - _FEWEST]

    def predicted_by(self, values: pl.Series, column: Column) -> float | None:
        """See the module; None where labels are too few, or of one class."""
        if not self._targets:
            return None
        ranks = values.gather(self._rows).rank("dense").to_numpy()
        codes = np.nan_to_num(ranks[self._present]).astype(np.int64)
        power = self._by_category if column.role == "categorical" else self._by_order
        return round(max(power(codes, target) for target in self._targets), 6)

    def _by_order(self, codes: Codes, target: Floats) -> float:
        return _correlation(_ranks(codes), target) if self._regression else _area(codes, target)

    def _by_category(self, codes: Codes, target: Floats) -> float:
        """The mean of the two halves, each by the mean labels of the other one."""
        half, size = self._half, int(codes.max(initial=0)) + 1
        found = []
        for side in (0, 1):
            ours, others = half == side, half != side
            sums = np.bincount(codes[others], target[others], minlength=size) + _PRIOR * target.mean()
            means = sums / (np.bincount(codes[others], minlength=size) + _PRIOR)
            places = np.unique(means, return_inverse=True)[1].ravel()
            found.append(self._by_order(places[codes[ours]], target[ours]))
        return sum(found) / len(found)


def _hashes(rows: int) -> npt.NDArray[np.uint64]:
    """A hash of each row number, all different: the finalizer of SplitMix64 (Steele et al. 2014)."""
    found = np.arange(rows, dtype=np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
    return found ^ (found >> np.uint64(31))


def _area(codes: Codes, target: Floats) -> float:
    """|2 AUC - 1| of codes as scores; 0 where the target has one class."""
    rows = np.bincount(codes)
    positive = np.bincount(codes, target)
    negative = rows - positive
    pairs = positive.sum() * negative.sum()
    below = np.cumsum(negative) - negative
    return abs(2 * float((positive * (below + negative / 2)).sum() / pairs) - 1) if pairs else 0.0


def _ranks(codes: Codes) -> Floats:
    """Ranks, of equal codes their mean."""
    rows = np.bincount(codes)
    means: Floats = (np.cumsum(rows) - (rows - 1) / 2)[codes]
    return means


def _correlation(one: Floats, two: Floats) -> float:
    """The correlation without its sign; 0 where a side has one value."""
    return abs(float(np.corrcoef(one, two)[0, 1])) if one.std() and two.std() else 0.0
