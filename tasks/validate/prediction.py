"""How well one column alone predicts the label: a value close to 1 on real data is a leak.

Measured on every n-th row of a day, at most some 20,000 of them, so that memory is bounded and the same rows give the
same number. Of two classes it is |2 AUC - 1|; of several classes the largest of each against the rest; of a ranking
that of labels above 0 against the rest; of numbers Spearman's rank correlation, without its sign. A category predicts
by the mean label of the other half of the rows, so that one that hardly repeats predicts nothing. A missing value is
the least one.
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
        self._step = max(1, len(label) // _ROWS)
        values = label.gather_every(self._step).cast(pl.Float64).to_numpy()
        self._present = np.isfinite(values)
        numbers = values[self._present]
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
        ranks = values.gather_every(self._step).rank("dense").to_numpy()
        codes = np.nan_to_num(ranks[self._present]).astype(np.int64)
        power = self._by_category if column.role == "categorical" else self._by_order
        return round(max(power(codes, target) for target in self._targets), 6)

    def _by_order(self, codes: Codes, target: Floats) -> float:
        return _correlation(_ranks(codes), target) if self._regression else _area(codes, target)

    def _by_category(self, codes: Codes, target: Floats) -> float:
        """The mean of the two halves, each by the mean labels of the other one."""
        half, size = np.arange(len(codes)) % 2, int(codes.max(initial=0)) + 1
        found = []
        for side in (0, 1):
            ours, others = half == side, half != side
            sums = np.bincount(codes[others], target[others], minlength=size) + _PRIOR * target.mean()
            means = sums / (np.bincount(codes[others], minlength=size) + _PRIOR)
            places = np.unique(means, return_inverse=True)[1].ravel()
            found.append(self._by_order(places[codes[ours]], target[ours]))
        return sum(found) / len(found)


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
