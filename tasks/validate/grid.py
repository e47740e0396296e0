"""One grid with fixed edges for all histograms, so that histograms of different days can be added.

The bin of a double is its sign, its exponent and the first five bits of its mantissa: 32 bins of equal width for each
power of two, at most 3 % of the value wide, computed without a logarithm. Zero has the bin 0, which also contains
negative numbers too small for a normal double. Bins are numbered in the order of their values.
"""

import struct
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

_SHIFT = 47
_NEGATIVE = 1 << 16
_BLOCK = 1 << 18


def count(values: npt.NDArray[np.float64]) -> dict[int, int]:
    """Count the finite values in each bin; bins without a value are left out."""
    totals = np.zeros(2 * _NEGATIVE, dtype=np.int64)
    for start in range(0, len(values), _BLOCK):
        bits = np.ascontiguousarray(values[start : start + _BLOCK], dtype=np.float64).view(np.uint64)
        totals += np.bincount((bits >> np.uint64(_SHIFT)).astype(np.int64), minlength=len(totals))
    totals[0] += totals[_NEGATIVE]
    totals[_NEGATIVE] = 0
    found = {_number(int(place)): int(totals[place]) for place in np.flatnonzero(totals)}
    return dict(sorted(found.items()))


def _number(place: int) -> int:
    return place if place < _NEGATIVE else _NEGATIVE - place


def edges(number: int) -> tuple[float, float]:
    """The lower and the upper edge of a bin."""
    low, high = _double(abs(number)), _double(abs(number) + 1)
    return (low, high) if number >= 0 else (-high, -low)


def median(histogram: Mapping[int, int]) -> float:
    """The median of a histogram, to 1.6 %."""
    half, below = sum(histogram.values()) / 2, 0
    for place in sorted(histogram):
        below += histogram[place]
        if below >= half:
            low, high = edges(place)
            return 0.0 if place == 0 else (low + high) / 2
    return 0.0


def _double(place: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<Q", place << _SHIFT))[0]
    return value
