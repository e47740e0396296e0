"""How many rows a training step takes: what planning and training have to agree on."""

from typing import Literal

CHUNK_ROWS = 64
"""Rows that stay neighbours. Copying runs of rows is several times faster than gathering single ones; a batch is made
of many runs from all over the training days, so that its rows are as good as independent."""


def auto_batch_size(rows: int) -> int:
    """A power of two from 256 to 4096 that leaves about fifty steps in an epoch: a function of the data alone."""
    fitting = max(rows // 50, 1).bit_length() - 1
    return int(min(max(2**fitting, 256), 4096))


def step_rows(batch_size: int | Literal["auto"], rows: int) -> int:
    """Rows in a full step of a training on so many rows; groups that stay whole may add some."""
    wanted = auto_batch_size(rows) if batch_size == "auto" else batch_size
    return min(max(wanted, CHUNK_ROWS), rows)
