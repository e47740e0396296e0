"""Resamples of sums over units, for a paired bootstrap.

A resample gives every unit a random weight with mean 1 and variance 1, the same for candidate and baseline. The weights
are those of a Poisson bootstrap (Chamandy et al. 2012, Estimating uncertainty for massive data streams), drawn from
bytes, so that two thousand resamples are a few matrix products.
"""

import numpy as np
from numpy.typing import NDArray

from ratchet.metrics.measurement import blocks
from ratchet.metrics.rows import Floats

_CHUNK_BYTES = 16 << 20
# How many of 256 bytes become the weights 0 to 5: mean and variance are exactly 1, the third moment 4.96 (Poisson: 5).
_WEIGHTS = np.repeat(np.arange(6, dtype=np.float32), (95, 92, 49, 15, 4, 1))


def resample(columns: Floats, *, resamples: int, seed: int) -> Floats:
    """Weighted column sums [resamples, k] of columns [units, k]; the same weights for all columns."""
    columns = blocks(columns)
    units, width = columns.shape
    scale = np.abs(columns).max(axis=0, initial=0.0)
    scale[scale == 0] = 1.0
    scaled = (columns / scale).astype(np.float32)
    generator = np.random.PCG64(seed)
    totals = np.empty((resamples, width))
    step = max(1, _CHUNK_BYTES // (4 * max(units, 1)))
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        raw: NDArray[np.uint64] = generator.random_raw(-(-rows * units // 8))
        weights = _WEIGHTS[raw.view(np.uint8)[: rows * units]].reshape(rows, units)
        totals[start : start + rows] = weights @ scaled
    return np.asarray(totals * scale)
