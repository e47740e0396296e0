"""The counts of the values in lists."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ratchet.contracts.pipeline import PipelineSpec
from ratchet.model.description import ListColumn
from ratchet.model.hashing import PADDING
from ratchet.model.list_columns import lists
from tasks.features.statistics import count_ids


def count_all(ids: NDArray[np.int64], spec: PipelineSpec) -> NDArray[np.int64]:
    """Count the ids of each categorical column and, as further columns, those in each list.

    ids: the categorical array of a day. Returns what `statistics.count_ids` does.
    """
    plain = ids.shape[1] - sum(one.length for one in lists(spec))
    return np.concatenate([count_ids(ids[:, :plain]), count_lists(ids[:, plain:], spec, first=plain)])


def count_lists(ids: NDArray[np.int64], spec: PipelineSpec, *, first: int) -> NDArray[np.int64]:
    """Count the ids in each list. ids: of the lists alone. first: the number of the first list as a column."""
    found, begin = [np.zeros((0, 3), np.int64)], 0
    for number, one in enumerate(lists(spec)):
        values = ids[:, begin : begin + one.length]
        counts = count_ids(values[values != PADDING].reshape(-1, 1))
        counts[:, 0] = first + number
        found.append(counts)
        begin += one.length
    return np.concatenate(found)


def tables(categorical: Sequence[str], several: Sequence[ListColumn]) -> tuple[tuple[int, ...], ...]:
    """The columns of `count_all` whose values are in each vocabulary: one, and the lists that share its vectors."""
    of: dict[str, list[int]] = {name: [place] for place, name in enumerate(categorical)}
    for number, one in enumerate(several):
        of.setdefault(one.share or one.name, []).append(len(categorical) + number)
    return tuple(map(tuple, of.values()))
