"""The units of a world: clusters of members that vary together, rows or groups."""

import math

import numpy as np

from ratchet.metrics.rows import Codes, Floats


def members(generator: np.random.Generator, units: int, size: int) -> Codes:
    """The unit of each member, in rising order."""
    if size == 1:
        return np.arange(units)
    return np.repeat(np.arange(units), generator.integers(1, 2 * size, units))


def cluster(unit: Codes, size: int) -> Codes | None:
    """The unit of each member where units have several; None where each member is one of its own."""
    return unit if size > 1 else None


def within(generator: np.random.Generator, unit: Codes, units: int) -> Floats:
    """Standard normal noise of each member, half of its variance shared by the members of a unit."""
    own = generator.normal(size=len(unit))
    return np.asarray(math.sqrt(0.5) * (generator.normal(size=units)[unit] + own))


def words(size: int, members: str = "rows") -> str:
    """The size in words; empty where a unit is one member."""
    return f" of {size} {members}" if size > 1 else ""
