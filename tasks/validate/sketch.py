"""The smallest hashes of a set: they estimate how many of its members another set has.

Of two sets the hashes up to the smaller of their greatest ones are a random sample of both. So the share of these that
are in both estimates the share of the members, to about 3 %. See Cohen and Kaplan (2007), bottom-k sketches.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

SIZE = 256
HASH_BITS = 53
"""As many as a number of JSON holds exactly."""
_FEWEST = 20
"""Members of a sample, below which nothing is estimated."""

Sketch = tuple[int, ...]


def sketch(hashes: npt.NDArray[np.uint64]) -> Sketch:
    """The sketch of distinct hashes of 64 bits."""
    kept = np.partition(hashes, SIZE - 1)[:SIZE] if len(hashes) > SIZE else hashes
    return tuple(sorted((kept >> np.uint64(64 - HASH_BITS)).tolist()))


def least(sketches: Iterable[Sketch]) -> Sketch:
    """The sketch of the union of sets."""
    return tuple(sorted(set().union(*sketches))[:SIZE])


def shared(ours: Sketch, theirs: Sketch) -> float:
    """The share of our members that they have too; 0 of an empty set."""
    if not ours or not theirs:
        return 0.0
    # A sketch that is not full is the whole set.
    ends = [sketch[-1] for sketch in (ours, theirs) if len(sketch) == SIZE]
    end = min(ends, default=max(ours[-1], theirs[-1]))
    sample = [one for one in ours if one <= end]
    known = set(theirs)
    return sum(one in known for one in sample) / len(sample) if len(sample) >= min(_FEWEST, len(ours)) else 0.0
