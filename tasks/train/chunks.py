"""The chunks of a table: rows side by side that stay together in every epoch, with groups whole."""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


def chunk_borders(
    rows: int, sizes: Tensor | None, chunk_rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """(first row of each chunk and the end, first group of each chunk and the end or None).

    Chunks are about as large as each other, at most `chunk_rows` unless a group is longer. A last row by itself joins
    the chunk before it: it may become a batch, and layers that normalise by batch fail on one row.
    """
    count = -(-rows // chunk_rows)
    targets = -(-np.arange(1, count + 1) * rows // count)
    if sizes is None:
        starts = np.append(0, targets)
        return _without_single(starts, starts, chunk_rows), None
    ends = np.cumsum(sizes.numpy())
    last = np.unique(np.minimum(np.searchsorted(ends, targets), len(ends) - 1)) + 1  # the group after each chunk
    starts, groups = np.append(0, ends[last - 1]), np.append(0, last)
    return _without_single(starts, starts, chunk_rows), _without_single(groups, starts, chunk_rows)


def _without_single(borders: NDArray[np.int64], starts: NDArray[np.int64], chunk_rows: int) -> NDArray[np.int64]:
    """The borders without the last but one, if the last chunk has one row where others have more."""
    single = chunk_rows > 1 and len(starts) > 2 and starts[-1] - starts[-2] == 1  # noqa: PLR2004 - another chunk
    return np.delete(borders, -2) if single else borders
