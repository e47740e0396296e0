"""The settings of the training loop, as plain data: the loop needs torch, numpy and safetensors alone."""

from dataclasses import dataclass
from typing import Literal

from tasks.train.curriculum import Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a training did, for one that repeats it on other rows: epochs at the level, and epochs of the fall."""

    level: float
    fall: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Steps in a row that are computed in one way; the fields are those of contracts.accumulation.Segment.

    begin: the completed steps at its begin. accumulation: micro-batches of a step. device: as torch names its kind.
    threads: of the CPU, of each rank. shards: of a step. precision: of its layers. tables: whole or sharded.
    """

    begin: int
    accumulation: int
    device: str
    threads: int
    shards: int = 1
    precision: str = "fp32"
    tables: str = "whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one training.

    steps, epochs: what a training takes at most, whichever is less. evaluations: of an epoch, at most. batch_size: rows
    of a step, at least: groups stay whole. patience: evaluations without a better metric after which the learning rate
    falls. checkpoint_every_s, checkpoint_steps: seconds and steps between two checkpoints inside an epoch, at most;
    each epoch also ends with one. lower_is_better: the direction of the valid metric. accumulation: number of
    micro-batches that a step is computed in at first, to need less memory; their gradients sum to those of the whole
    batch. shards: parts of a step that ranks compute apart, a power of two; None: one for each rank. recipe: of a
    training to repeat on other rows. segments: of a training to repeat to the bit.
    sampling: which rows are met more often; None where each is met once in an epoch. precision: of the layers at first,
    fp32, tf32, bf16 or fp16. ema: the decay of the average of the weights; None for no average. recompute: whether
    activations are computed again in the backward pass. measure: by what the micro-batches are chosen at the begin of a
    training; None for those of accumulation. optimizer: of the layers, adamw or sgd.
    """

    objective: str
    steps: int
    epochs: int
    evaluations: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    seed: int
    patience: int
    checkpoint_every_s: float
    lower_is_better: bool
    checkpoint_steps: int | None = None
    accumulation: int = 1
    shards: int | None = None
    recipe: Recipe | None = None
    segments: tuple[Segment, ...] = ()
    sampling: Sampling | None = None
    ema: float | None = None
    measure: Literal["memory", "time"] | None = None
    recompute: bool = False
    optimizer: str = "adamw"
    precision: str = "fp32"
