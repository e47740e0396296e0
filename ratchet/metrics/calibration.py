"""Whether a probability is as frequent as it says."""

import numpy as np

from ratchet.metrics.measurement import MAX_BLOCKS, Measurement
from ratchet.metrics.rows import Floats, Rows

BINS = 15


def ece(rows: Rows, score: Floats) -> Measurement:
    """Expected calibration error (Naeini et al. 2015), in BINS bins of equal width over the probability of a positive.

    The mean over rows of the distance, in their bin, of the mean probability from the share of positives. It is no mean
    of a value of each row: a resample computes the distances of its bins again.
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
    )


def _distance(sums: Floats) -> Floats:
    return np.asarray(np.abs(sums[..., :-1]).sum(axis=-1) / sums[..., -1])
