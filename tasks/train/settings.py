"""What the training loop needs to know. Plain data: the loop runs wherever torch, numpy and safetensors are."""

from dataclasses import dataclass
from typing import Literal

CHUNK_ROWS = 64
"""Rows that stay neighbours. Copying runs of rows is several times faster than gathering single ones; a batch is made
of many runs from all over the training days, so that its rows are as good as independent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One training's settings.

    batch_size: rows of a step, at least (groups stay whole). checkpoint_every_s: seconds between two checkpoints at
    most, besides the one at each epoch's end. lower_is_better: of the valid metric. accumulation: micro-batches in
    which a step is computed, to need less memory; the gradients add up to the whole batch's.
    """

    objective: str
    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    seed: int
    patience: int
    checkpoint_every_s: float
    lower_is_better: bool
    accumulation: int = 1


def auto_batch_size(rows: int) -> int:
    """A power of two from 256 to 4096 that leaves about fifty steps in an epoch: a function of the data alone."""
    fitting = max(rows // 50, 1).bit_length() - 1
    return int(min(max(2**fitting, 256), 4096))


def step_rows(batch_size: int | Literal["auto"], rows: int) -> int:
    """Rows in a full step of a training on so many rows; groups that stay whole may add some."""
    wanted = auto_batch_size(rows) if batch_size == "auto" else batch_size
    return min(max(wanted, CHUNK_ROWS), rows)
