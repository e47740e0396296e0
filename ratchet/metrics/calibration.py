"""Whether a probability is as frequent as it says."""

from statistics import NormalDist

import numpy as np

from ratchet.metrics.measurement import MAX_BLOCKS, Measurement
from ratchet.metrics.rows import Floats, Rows

BINS = 15
_NORMAL = NormalDist()
_SURE = _NORMAL.inv_cdf(0.95)


def ece(rows: Rows, score: Floats) -> Measurement:
    """Expected calibration error (Naeini et al. 2015), in BINS bins of equal width over the probability of a positive.

    The mean over rows of the distance, in their bin, of the mean probability from the share of positives. It is no mean
    of a value of each row: a resample computes the distances of its bins again. Noise adds to a distance
    and never takes from it, the more the more bins a model has: `noise` is how much that may be.
    """
    place = np.clip((score * BINS).astype(np.int64), 0, BINS - 1)
    used = np.flatnonzero(np.bincount(place, minlength=BINS))
    place = np.searchsorted(used, place)
    width = len(used) + 1
    unit, units = rows.unit_or_block(MAX_BLOCKS)
    excess: Floats = (score - (rows.label > 0)) * rows.weights
    sums: Floats = np.bincount(unit * width + place, excess, minlength=units * width).astype(np.float64)
    sums = sums.reshape(units, width)
    sums[:, -1] = np.bincount(unit, rows.weights, minlength=units)
    information = rows.weights_of_units(np.ones(len(score), bool))[:, None]
    return Measurement(
        value=float(_distance(sums.sum(axis=0))),
        sums=sums,
        combine=_distance,
        information=information,
        noise=_noise(sums),
    )


def _distance(sums: Floats) -> Floats:
    return np.asarray(np.abs(sums[..., :-1]).sum(axis=-1) / sums[..., -1])


def _noise(sums: Floats) -> float:
    """What noise may add to the mean distance: for each bin the mean of |gap + noise| - |gap|, normal noise.

    The gap of a bin is taken as small as it may be, with 95 % confidence: far from zero, noise adds nothing.
    """
    whole, squares = sums.sum(axis=0), np.square(sums).sum(axis=0)
    spreads = np.sqrt(np.maximum(squares - whole**2 / len(sums), 0.0))[:-1]
    added = 0.0
    for gap, spread in zip(np.abs(whole[:-1]), spreads, strict=True):
        if spread > 0:
            least = max(float(gap / spread) - _SURE, 0.0)
            added += float(spread) * 2 * (_NORMAL.pdf(least) - least * _NORMAL.cdf(-least))
    return float(added / whole[-1])
