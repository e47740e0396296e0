"""The rows of a training step. The planner and the training use this code, so that they compute the same number."""

from typing import Literal

CHUNK_ROWS = 64
"""Rows that stay together in every epoch, unless a batch has fewer. To copy a chunk of rows is several times faster
than to gather single rows; a batch consists of many chunks from all training days."""
MAX_ACCUMULATION = 64
"""The largest number of micro-batches of a step. If it is not enough, the size of the batch is not the problem."""


def auto_batch_size(rows: int) -> int:
    """The largest power of two that gives fifty steps in an epoch, but 256 to 4096; it depends only on the rows."""
    largest = max(rows // 50, 1).bit_length() - 1
    return int(min(max(2**largest, 256), 4096))


def step_rows(batch_size: int | Literal["auto"], rows: int) -> int:
    """The rows of a full step in a training on `rows` rows. Groups are not split, so a step may have a few more."""
    size = auto_batch_size(rows) if batch_size == "auto" else batch_size
    return min(size, rows)
