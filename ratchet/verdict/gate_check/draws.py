"""The units of a simulated night: drawn with replacement from those of a real one, as many as it had."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
_FAIR = 0.5


def ranges(offsets: Indices, picks: Indices) -> Indices:
    """The members of some parts, one part after the other. offsets: [parts + 1] into the members."""
    starts, sizes = offsets[picks], offsets[picks + 1] - offsets[picks]
    ends = np.cumsum(sizes)
    whole = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - ends + sizes, sizes) + np.arange(whole)


@dataclass(frozen=True, kw_only=True, eq=False)
class Night:
    """One simulated night. units: the drawn ones, repeats included; block: which draw each of them came with."""

    units: Indices
    block: Indices
    blocks: int

    def coin(self, generator: np.random.Generator) -> NDArray[np.bool_]:
        """A fair coin for each draw, as a mask of the units [units]: those of one draw fall together."""
        return np.asarray(generator.random(self.blocks) < _FAIR)[self.block]


@dataclass(frozen=True, kw_only=True, eq=False)
class Draws:
    """What is drawn: blocks of units that vary together, of one unit each where units are independent.

    order: [units], the units of a block next to each other. offsets: [blocks + 1] into it.
    """

    order: Indices
    offsets: Indices

    @classmethod
    def single(cls, units: int) -> Self:
        """Each unit by itself."""
        return cls(order=np.arange(units), offsets=np.arange(units + 1))

    @classmethod
    def clustered(cls, codes: Indices) -> Self:
        """Whole clusters. codes: [units], the cluster of each unit; a unit below zero is one by itself."""
        own = codes < 0
        codes = np.where(own, codes.max(initial=-1) + 1 + np.cumsum(own), codes)
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1) != 0)
        return cls(order=order, offsets=np.append(starts, len(codes)))

    @property
    def blocks(self) -> int:
        """How many there are, and how many make a night."""
        return len(self.offsets) - 1

    def draw(self, generator: np.random.Generator) -> Night:
        """One night."""
        picks = generator.integers(self.blocks, size=self.blocks)
        sizes = np.diff(self.offsets)[picks]
        return Night(
            units=self.order[ranges(self.offsets, picks)],
            block=np.repeat(np.arange(self.blocks), sizes),
            blocks=self.blocks,
        )
