"""Resamples of sums over units, for a paired bootstrap.

A resample gives every unit a random weight with mean 1 and variance 1, the same for candidate and baseline. The weights
are those of a Poisson bootstrap (Chamandy et al. 2012, Estimating uncertainty for massive data streams), drawn from
bytes, so that two thousand resamples are one matrix product. Of at most 2,048 blocks of units they take 16 MiB.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ratchet.metrics.measurement import blocks
from ratchet.metrics.rows import Floats

# How many of 256 bytes become the weights 0 to 5: mean and variance are exactly 1, the third moment 4.96 (Poisson: 5).
_WEIGHTS = np.repeat(np.arange(6, dtype=np.float32), (95, 92, 49, 15, 4, 1))


def resample(columns: Floats, *, resamples: int, seed: int) -> Floats:
    """Weighted column sums [resamples, k] of columns [units, k]; the same weights for all columns."""
    columns = blocks(columns)
    scale = np.abs(columns).max(axis=0, initial=0.0)
    scale[scale == 0] = 1.0
    scaled = (columns / scale).astype(np.float32)
    return np.asarray((_weights(resamples, len(columns), seed) @ scaled) * scale)


@lru_cache(maxsize=1)
def _weights(resamples: int, units: int, seed: int) -> NDArray[np.float32]:
    """The weights of each resample [resamples, units]; the last ones are kept for the next metric of the same units."""
    raw: NDArray[np.uint64] = np.random.PCG64(seed).random_raw(-(-resamples * units // 8))
    weights = _WEIGHTS[raw.view(np.uint8)[: resamples * units]].reshape(resamples, units)
    weights.flags.writeable = False
    return weights
