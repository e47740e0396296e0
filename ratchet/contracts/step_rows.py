"""Rows of a training step: planning and training must compute the same number."""

from typing import Literal

CHUNK_ROWS = 64
"""Rows that stay neighbours in every epoch. Copying runs of rows is several times faster than gathering single rows; a
batch consists of many runs from all training days."""


def auto_batch_size(rows: int) -> int:
    """A power of two from 256 to 4096 that gives about fifty steps an epoch; it depends on the rows alone."""
    largest = max(rows // 50, 1).bit_length() - 1
    return int(min(max(2**largest, 256), 4096))


def step_rows(batch_size: int | Literal["auto"], rows: int) -> int:
    """Rows of a full step in a training on `rows` rows; groups stay whole and may add some."""
    size = auto_batch_size(rows) if batch_size == "auto" else batch_size
    return min(max(size, CHUNK_ROWS), rows)
