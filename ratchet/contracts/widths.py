"""How many values a row has, with its lists and vectors: what estimates of memory count."""

from collections.abc import Mapping

from ratchet.contracts.columns import Column


def widths(columns: Mapping[str, Column]) -> dict[str, int]:
    """The values of each column in a row: 1, the numbers of a vector, or `max_length` of a list and of its weights.

    A source may have longer lists.
    """
    of_weights = {column.weights: column.width for column in columns.values() if column.weights}
    return {name: of_weights.get(name, column.width) for name, column in columns.items()}
