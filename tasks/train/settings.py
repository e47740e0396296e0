"""What the training loop needs to know. Plain data: the loop runs wherever torch, numpy and safetensors are."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One training's settings.

    batch_size: rows of a step, at least (groups stay whole). checkpoint_every_s: seconds between two checkpoints at
    most, besides the one at each epoch's end. lower_is_better: of the valid metric.
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


def auto_batch_size(rows: int) -> int:
    """A power of two from 256 to 4096 that leaves about fifty steps in an epoch: a function of the data alone."""
    fitting = max(rows // 50, 1).bit_length() - 1
    return int(min(max(2**fitting, 256), 4096))
