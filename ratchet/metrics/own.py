"""Metrics that are a function of rows and scores which nobody here knows: the pipeline's own.

In a ranking such a function measures a group, and the metric is the mean over groups, as of ours. Elsewhere it measures
all rows at once, and its spread comes from leaving out a block of units at a time (delete-a-group jackknife; Busing,
Meijer and van der Leeden 1999, Delete-m jackknife for unequal m): BLOCKS calls at most, however many rows there are.

A change here violates the promise of the project when a function without a finite value gives a measurement.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ratchet.metrics.measurement import Measurement, mean_of_groups, ratio
from ratchet.metrics.rows import Floats, Rows

BLOCKS = 128
"""So many blocks, or one for each unit if there are fewer: the spread is then known to about 6 %."""
_HEAVY = 9.0
"""Blocks with more kurtosis are no sums of many parts that are alike. That of normal ones is 3; that of blocks of a few
rows with rare labels may be 6."""

Function = Callable[[Rows, Floats], float]
"""The value on some rows and their scores; not finite where it has none."""


def of_groups(function: Function, rows: Rows, score: Floats, *, lower_is_better: bool) -> Measurement | None:
    """The mean over groups with a positive label; None where the function has a finite value on none of them.

    It counts as `tailed` unless more is better and each value is from 0 to 1.
    """
    if rows.offsets is None:
        return None
    weight = rows.weights_of_groups()
    values = np.full(len(weight), np.nan)
    for group in np.flatnonzero(weight > 0):
        place = slice(rows.offsets[group], rows.offsets[group + 1])
        found = function(_group(rows, place), score[place])
        values[group] = found if np.isfinite(found) else np.nan
    measured = mean_of_groups(values, rows)
    known = values[~np.isnan(values)]
    return measured and replace(measured, tailed=lower_is_better or not _is_share(known))


def of_rows(
    function: Function, rows: Rows, score: Floats, *, lower_is_better: bool, information: Floats
) -> Measurement | None:
    """The function's value on all rows; None where that, or the value without one of the blocks, is not finite.

    information: see Measurement. The part of a block is what the value loses without it, so the mean of rows has the
    sums of its rows, and any smooth function those of its first derivative. It counts as `tailed` unless more is
    better, each value is from 0 to 1, and no block is far from all others.
    """
    value = function(rows, score)
    if not np.isfinite(value):
        return None
    block = rows.unit_of_rows % BLOCKS
    share = np.bincount(block, rows.weights) / rows.weights.sum()
    without = np.full(len(share), value)
    for place in np.flatnonzero(share > 0) if np.count_nonzero(share) > 1 else ():
        kept = block != place
        without[place] = function(rows.select(kept), score[kept])
    if not np.isfinite(without).all():
        return None
    parts = value - (1 - share) * without
    parts += share * (value - parts.sum())
    tailed = lower_is_better or not _is_share(np.append(without, value)) or _kurtosis(parts - share * value) > _HEAVY
    return Measurement(
        value=float(value),
        sums=np.stack([parts, share], axis=1),
        combine=ratio,
        information=information,
        tailed=tailed,
    )


def _group(rows: Rows, place: slice) -> Rows:
    weight = None if rows.weight is None else rows.weight[place]
    return Rows(label=rows.label[place], offsets=np.array([0, place.stop - place.start]), weight=weight)


def _is_share(values: Floats) -> bool:
    return bool(((values >= 0) & (values <= 1)).all())


def _kurtosis(parts: Floats) -> float:
    variance = float(np.square(parts).mean())
    return float((parts**4).mean()) / variance**2 if variance > 0 else 0.0
