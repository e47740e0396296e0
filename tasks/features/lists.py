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
    several = lists(spec)
    plain = ids.shape[1] - sum(one.length for one in several)
    found, begin = [count_ids(ids[:, :plain])], plain
    for number, one in enumerate(several):
        values = ids[:, begin : begin + one.length]
        counts = count_ids(values[values != PADDING].reshape(-1, 1))
        counts[:, 0] = plain + number
        found.append(counts)
        begin += one.length
    return np.concatenate(found)


def tables(categorical: Sequence[str], several: Sequence[ListColumn]) -> tuple[tuple[int, ...], ...]:
    """The columns of `count_all` whose values are in each vocabulary: one, and the lists that share its vectors."""
    of: dict[str, list[int]] = {name: [place] for place, name in enumerate(categorical)}
    for number, one in enumerate(several):
        of.setdefault(one.share or one.name, []).append(len(categorical) + number)
    return tuple(map(tuple, of.values()))
