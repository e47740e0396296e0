"""One grid for all histograms: fixed edges, so that histograms of any two days add up.

A double is binned by its sign, its exponent and the first five bits of its mantissa: 32 bins of equal width to each
power of two, at most 3 % of the value wide, found without a logarithm. Zero has the bin 0, which also takes what is
too small to be a normal number and negative. Bins are numbered in the order of their values.
"""

import struct

import numpy as np
import numpy.typing as npt

_SHIFT = 47
_NEGATIVE = 1 << 16
_BLOCK = 1 << 18


def count(values: npt.NDArray[np.float64]) -> dict[int, int]:
    """How many finite values lie in each bin that has any."""
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
    """The least and the greatest value between which a bin lies."""
    low, high = _double(abs(number)), _double(abs(number) + 1)
    return (low, high) if number >= 0 else (-high, -low)


def _double(place: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<Q", place << _SHIFT))[0]
    return value
