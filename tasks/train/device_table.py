"""A table in the memory of a GPU: where it fits, numbers and categories cross to the GPU once, and not in each step."""

import torch
from torch import Tensor

from tasks.train.table import Table

ON_DEVICE = 0.5
"""The share of a GPU's free memory that a table may take, before the steps take theirs."""
_BLOCK_ROWS = 1 << 20


def on_device(table: Table | None, device: torch.device) -> Tensor | None:
    """The words of a table in a GPU's memory; None for another device, or where they take more than their share."""
    if table is None or device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    if len(table.words) * table.layout.row_bytes > ON_DEVICE * free:
        return None
    return copied(table, device)


def copied(table: Table, device: torch.device) -> Tensor:
    """The words of a table on a device, copied block by block: the table may be on a disk."""
    words = torch.empty(table.words.shape, dtype=torch.int32, device=device)
    for begin in range(0, len(words), _BLOCK_ROWS):
        words[begin : begin + _BLOCK_ROWS].copy_(table.words[begin : begin + _BLOCK_ROWS])
    return words
