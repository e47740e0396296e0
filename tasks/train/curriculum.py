"""Newer days more often than older ones: which chunks an epoch has, as a pure function of seed and epoch.

A change here violates the promise of the project when the chunks of an epoch depend on anything but the seed, the epoch
and the days, so that a resumed training would meet other rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

CHUNK_ROWS = 8
"""Rows of a chunk: they are of one day, and so alike; a batch of many small chunks is still like all rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How often rows are met. ends: the rows of the first day, of the first two, ...; weights: of a row of each."""

    ends: tuple[int, ...]
    weights: tuple[float, ...]

    def of_chunks(
        self, numbers: NDArray[np.int64], begin: NDArray[np.int64], end: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """The weight of each chunk: the mean of its rows.

        numbers: of each row in the days, one day after the other. begin, end: rows of each chunk; together all rows.
        """
        weights = np.asarray(self.weights)[np.searchsorted(self.ends, numbers, side="right")]
        sums: NDArray[np.float64] = np.add.reduceat(weights, begin)
        return sums / (end - begin)


def by_age(days: Sequence[tuple[date, int]], half_life: float) -> Sampling:
    """days: (day, its rows), in the order in which they are joined. half_life: in days."""
    newest = max(day for day, _ in days)
    return Sampling(
        ends=tuple(np.cumsum([rows for _, rows in days]).tolist()),
        weights=tuple(0.5 ** ((newest - day).days / half_life) for day, _ in days),
    )


def draw(weights: NDArray[np.float64] | None, count: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """`count` of as many chunks in random order: each once, or as often as its share of the weights says, up to one.

    Systematic sampling: one random number decides which of the two whole numbers next to its share a chunk gets.
    """
    source = np.random.default_rng((seed, epoch))
    if weights is None:
        return source.permutation(count)
    ends = np.cumsum(weights / weights.sum() * count)
    found = np.searchsorted(ends, np.arange(count) + source.random(), side="right")
    return source.permutation(np.minimum(found, count - 1))
