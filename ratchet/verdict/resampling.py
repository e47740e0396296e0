"""Resamples of sums over units, for a paired bootstrap.

A resample gives every unit a random weight with mean 1 and variance 1, the same for candidate and baseline. The weights
are those of a Poisson bootstrap (Chamandy et al. 2012, Estimating uncertainty for massive data streams), drawn from
bytes. They depend on the seed and on the number of units alone, so that columns of as many units share them, and two
thousand resamples are one matrix product.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ratchet.metrics.measurement import blocks
from ratchet.metrics.rows import Floats

_KEPT = 2
"""Tables of weights that are kept, of 16 MB at most each."""
# How many of 256 bytes become the weights 0 to 5: mean and variance are exactly 1, the third moment 4.96 (Poisson: 5).
_WEIGHTS = np.repeat(np.arange(6, dtype=np.float32), (95, 92, 49, 15, 4, 1))


def resample(columns: Floats, *, resamples: int, seed: int) -> Floats:
    """Weighted column sums [resamples, k] of columns [units, k]; the same weights for all columns."""
    columns = blocks(columns)
    units = len(columns)
    scale = np.abs(columns).max(axis=0, initial=0.0)
    scale[scale == 0] = 1.0
    scaled = (columns / scale).astype(np.float32)
    return np.asarray((_weights(units, resamples, seed) @ scaled) * scale)


@lru_cache(maxsize=_KEPT)
def _weights(units: int, resamples: int, seed: int) -> NDArray[np.float32]:
    """The weight of each unit in each resample [resamples, units]; fewer resamples are the first ones of more."""
    size = resamples * units
    raw: NDArray[np.uint64] = np.random.PCG64(seed).random_raw(-(-size // 8))
    found: NDArray[np.float32] = _WEIGHTS[raw.view(np.uint8)[:size]].reshape(resamples, units)
    found.flags.writeable = False
    return found
