"""What the training loop needs to know. Plain data: the loop runs wherever torch, numpy and safetensors are."""

from dataclasses import dataclass


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
