"""Stable ids for categories: the same value has the same id on every machine, in every version, for ever.

A change here violates the promise of the project when an id changes: arrays that are cached by day and models that are
in production would no longer mean the same. `probe` is how a model notices.
"""

from collections.abc import Iterable
from hashlib import blake2b, sha256

import numpy as np
from numpy.typing import NDArray

MISSING = 0
PADDING = -1
"""The id of no value, behind the end of a list. In a list, the one value whose id it would be has the id below it."""
Ids = NDArray[np.int64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_PROBE_TEXTS = ("", "DE", "item-42", "Ünïcode ✓", "0")
_PROBE_NUMBERS = (0, 1, -1, 42, 2**62, -(2**63))


def text_ids(values: Iterable[str]) -> Ids:
    """The id of each text: its 64-bit BLAKE2b (RFC 7693) over UTF-8, little-endian; never MISSING."""
    digests = b"".join(blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).digest() for value in values)
    return _present(np.frombuffer(digests, "<i8").astype(np.int64))


def integer_ids(values: NDArray[np.int64]) -> Ids:
    """The id of each number: the finaliser of SplitMix64 (Steele et al. 2014), one to one; never MISSING.

    Numbers would be ids themselves but for 0; mixed ones also spread evenly over tables and shards.
    """
    with np.errstate(over="ignore"):
        mixed = values.astype(np.int64).view(np.uint64) + _GOLDEN
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return _present((mixed ^ (mixed >> np.uint64(31))).view(np.int64))


def probe() -> str:
    """Sha256 over the ids of some fixed values: what a model records, and compares before it scores."""
    ids = np.concatenate([text_ids(_PROBE_TEXTS), integer_ids(np.array(_PROBE_NUMBERS, np.int64))])
    return sha256(ids.astype("<i8").tobytes()).hexdigest()


def _present(ids: Ids) -> Ids:
    ids[ids == MISSING] = 1
    return ids
