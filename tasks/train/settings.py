"""The settings of the training loop, as plain data: the loop needs torch, numpy and safetensors alone."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one training.

    batch_size: rows of a step, at least: groups stay whole. checkpoint_every_s: seconds between two checkpoints inside
    an epoch; each epoch also ends with one. lower_is_better: the direction of the valid metric. accumulation: number of
    micro-batches that a step is computed in, to need less memory; their gradients sum to those of the whole batch.
    last_epoch: the epoch after which training ends, if that is before `epochs`, over which the learning rate falls.
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
    last_epoch: int | None = None
