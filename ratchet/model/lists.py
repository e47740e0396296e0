"""Lists of categories: what the vectors of a list's values become, and where its values are among the inputs.

A list of a row has `length` places: its values, then nothing. A missing list has one value, MISSING, of weight 1.

A change here violates the promise of the project when what a list becomes depends on the rows beside it.
"""

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from ratchet.model.description import ListColumn

NOTHING = -1
"""The place of no value in a table, behind the end of a list."""


def own(lists: Sequence[ListColumn]) -> list[ListColumn]:
    """The lists with vectors of their own. They are before those that share the vectors of another column."""
    return [one for one in lists if one.share is None]


def pool(column: ListColumn, vectors: Tensor, weights: Tensor, *, exact: bool) -> Tensor:
    """The vectors of a list's values [rows, length, dimension] as one of each row [rows, dimension].

    weights: [rows, length], 0 behind the end of a list. A list without values, or without a weight above 0, becomes
    zeros. exact: add in one order, so that a row's sum has the same bits wherever the row is.
    """
    if column.weights is not None:
        vectors = vectors * weights.unsqueeze(2)
    total = _sum(vectors, exact=exact)
    if column.pool == "sum":
        return total
    mass = _sum(weights, exact=exact).unsqueeze(1)
    return total / torch.where(mass > 0, mass, 1.0)


def weights_of(column: ListColumn, places: Tensor, numbers: Tensor) -> Tensor:
    """The weights of a list's values, float32 [rows, length]. numbers: those of the row; ones without a column."""
    there = places != NOTHING
    return torch.where(there, numbers, 0.0) if column.weights is not None else there.float()


def _sum(values: Tensor, *, exact: bool) -> Tensor:
    """The sum over the values of each row."""
    return reduce(torch.add, values.unbind(1)) if exact else values.sum(1)
