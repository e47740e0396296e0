"""The keys of training: the model, the optimizer, checkpoints."""

import math
from typing import Annotated, Literal, TypeGuard

from pydantic import BeforeValidator, Field, WithJsonSchema

from ratchet.contracts.curriculum import Curriculum
from ratchet.contracts.document import Document
from ratchet.contracts.kinds import BOOSTED, KINDS
from ratchet.contracts.quantities import Duration
from ratchet.contracts.step_rows import MAX_ACCUMULATION

Objective = Literal["ranking", "binary", "regression", "multiclass"]
_LARGEST_RATE = 10
_RATES = {"adamw": (1e-3, 1e-2), "sgd": (0.1, 1e-4)}
"""The learning rate and the weight decay of each optimizer, where they are auto."""


def _parse_kind(value: object) -> object:
    if value in KINDS:
        return value
    module, separator, name = value.partition(":") if isinstance(value, str) else ("", "", "")
    if separator and module == "model.py" and name.isidentifier():
        return value
    raise ValueError(f'{value!r} is not a model; allowed: {", ".join(KINDS)}, "model.py:MyModule"')


def _parse_batch_size(value: object) -> object:
    if value == "auto" or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return value
    raise ValueError(f"{value!r} is not a batch size; allowed: auto, or a number of rows above 0")


ModelKind = Annotated[
    str, BeforeValidator(_parse_kind), WithJsonSchema({"type": "string", "examples": ["dcn", "model.py:MyModule"]})
]
BatchSize = Annotated[
    int | Literal["auto"],
    BeforeValidator(_parse_batch_size),
    WithJsonSchema({"anyOf": [{"const": "auto"}, {"type": "integer", "exclusiveMinimum": 0}]}),
]


def _parse_shards(value: object) -> object:
    if value == "auto" or value in (1, 2, 4, 8, 16, 32, 64):
        return value
    raise ValueError(f"{value!r} is not a number of shards; allowed: auto, 1, 2, 4, 8, 16, 32, 64")


def _parse_micro_batches(value: object) -> object:
    is_number = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_ACCUMULATION
    if value in ("auto", "fastest") or is_number:
        return value
    raise ValueError(f"{value!r} is not a number of micro-batches; allowed: auto, fastest, 1 to {MAX_ACCUMULATION}")


MicroBatches = Annotated[
    int | Literal["auto", "fastest"],
    BeforeValidator(_parse_micro_batches),
    WithJsonSchema(
        {"anyOf": [{"enum": ["auto", "fastest"]}, {"type": "integer", "minimum": 1, "maximum": MAX_ACCUMULATION}]}
    ),
]


def _parse_rate(value: object) -> object:
    if value == "auto" or (_is_number(value) and 0 < value <= _LARGEST_RATE):
        return value
    raise ValueError(f"{value!r} is not a learning rate; allowed: auto, or a number above 0 and up to {_LARGEST_RATE}")


def _parse_decay(value: object) -> object:
    if value == "auto" or (_is_number(value) and value >= 0):
        return value
    raise ValueError(f"{value!r} is not a weight decay; allowed: auto, or a number from 0 up")


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


Rate = Annotated[
    float | Literal["auto"],
    BeforeValidator(_parse_rate),
    WithJsonSchema({"anyOf": [{"const": "auto"}, {"type": "number", "exclusiveMinimum": 0, "maximum": _LARGEST_RATE}]}),
]
Decay = Annotated[
    float | Literal["auto"],
    BeforeValidator(_parse_decay),
    WithJsonSchema({"anyOf": [{"const": "auto"}, {"type": "number", "minimum": 0}]}),
]
Shards = Annotated[
    int | Literal["auto"],
    BeforeValidator(_parse_shards),
    WithJsonSchema({"anyOf": [{"const": "auto"}, {"enum": [1, 2, 4, 8, 16, 32, 64]}]}),
]


class Model(Document):
    """The architecture. `dcn` is a deep and cross network (Wang et al. 2021), `mlp` has no cross layers.

    In a `set` the rows of a group attend to each other as well. `tabm` is a network with many members (Gorishniy et al.
    2024), whose mean it gives. `lightgbm` is no network but boosted trees (Ke et al. 2017), with keys of its own.
    """

    kind: ModelKind = Field(
        "dcn",
        description="dcn, mlp, linear, set, tabm, lightgbm, or a class in the pipeline's model.py, such as "
        "model.py:MyModule. set needs a column with role group, whose rows have to be scored together.",
    )
    embedding_dim: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] = Field(
        "auto", description="The length of the vector of a category. auto: 2 to 32, the more the more categories."
    )
    number_dim: int = Field(8, ge=0, le=1024, description="The length of the vector of a number. 0: none.")
    masked: float = Field(0.01, ge=0, lt=1, description="The share of categories that count as unknown in training.")
    hidden: tuple[Annotated[int, Field(ge=1, le=65_536)], ...] = Field(
        (256, 128), description="The widths of the hidden layers."
    )
    cross_layers: int = Field(2, ge=1, le=16, description="The number of cross layers (dcn only).")
    members: int = Field(
        32, ge=1, le=1024, description="The number of members (tabm only). A step takes about as many times as long."
    )
    dropout: float = Field(0.2, ge=0, lt=1, description="The share of activations set to zero during training.")
    min_count: int = Field(2, ge=1, description="A category with fewer training rows than this counts as unknown.")
    rounds: Annotated[int, Field(ge=1, le=100_000)] | Literal["auto"] = Field(
        "auto",
        description="The largest number of rounds (lightgbm only); each adds a tree, in multiclass one for each class. "
        "A plateau on the validation days ends them sooner. auto: 2000; without validation days 200.",
    )
    leaves: int = Field(31, ge=2, le=131_072, description="The largest number of leaves of a tree (lightgbm only).")
    rate: float = Field(0.05, gt=0, le=1, description="The share of a tree that is added (lightgbm only).")
    min_rows: int = Field(20, ge=1, description="The smallest number of training rows in a leaf (lightgbm only).")

    @property
    def is_boosted(self) -> bool:
        """Whether it is boosted trees, and no network."""
        return self.kind == BOOSTED


class Checkpoint(Document):
    """How often training saves its state, in addition to the end of each epoch."""

    every: Duration = Field(20 * 60, description="The longest time between two checkpoints.")
    steps: int | None = Field(None, ge=1, description="The largest number of steps between two checkpoints.")
    keep: int = Field(
        3, ge=1, le=100, description="The number of newest checkpoints to keep. The best model is kept in addition."
    )


class Train(Document):
    """The model, and how it is trained."""

    objective: Objective = Field(description="What the model predicts. It decides the loss.")
    init: Literal["fresh", "champion"] = Field(
        "fresh",
        description="The weights that training begins with: random ones, or those of the model in production. With "
        "champion, training takes a fifth of the epochs, one at least, and needs no validation days; where less than "
        "half of the weights fits, it takes as long as a fresh one.",
    )
    model: Model = Field(default_factory=Model)
    curriculum: Curriculum | None = Field(
        None, description="Which rows a training meets more often. Without it, each row once in an epoch."
    )
    steps: int = Field(8_000, ge=1, description="The largest number of steps. A plateau may end training sooner.")
    epochs: int = Field(
        40, ge=1, le=10_000, description="The largest number of epochs. A plateau may end training sooner."
    )
    evaluations: int = Field(
        4, ge=1, le=1000, description="The evaluations on the validation days in an epoch, at most."
    )
    batch_size: BatchSize = Field(
        "auto",
        description="The rows in a step, at most those of the training days. A step is made of pieces of up to 64 rows "
        "and of whole groups, so it may have some more. auto takes the largest power of two with which an epoch has at "
        "least fifty steps, but no less than 256 and no more than 4096: below 12,800 rows it is 256, and an epoch has "
        "fewer steps.",
    )
    optimizer: Literal["adamw", "sgd"] = Field(
        "adamw",
        description="How a step moves the weights. sgd: with Nesterov's momentum of 0.9; the rows of a table with "
        "100,000 rows and more have none.",
    )
    learning_rate: Rate = Field(
        "auto",
        description="The learning rate before its fall; vectors of categories have 3 times it. auto: 0.001 with adamw, "
        "and 0.1 with sgd.",
    )
    precision: Literal["auto", "fp32", "tf32", "bf16", "fp16"] = Field(
        "auto",
        description="What the layers after the inputs multiply in while they train; all else is fp32 or fp64, also "
        "validation and serving. auto: bf16 on a GPU of compute capability 8.0 or more, otherwise fp32. tf32: fp32 "
        "whose products a GPU rounds. fp16: with a scaled loss.",
    )
    ema: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="The decay of an exponential moving average of the weights, such as 0.999, which is validated and "
        "shipped in place of the last weights. Off by default: the learning rate that falls to 0 averages already.",
    )
    recompute: bool = Field(
        default=False,
        description="Whether activations of the layers are computed again in the backward pass and not kept until "
        "then, to need less memory. A step takes about a third longer, and ends with the same bits.",
    )
    accumulation: MicroBatches = Field(
        "auto",
        description="The micro-batches of a step: their gradients add up to those of the whole step, which is taken "
        "once. auto: on a GPU as few as fit into 80 % of its memory, by measurement, and on a CPU one. fastest: those "
        "with the fastest steps, by measurement. A training that runs out of memory takes more by itself.",
    )
    weight_decay: Decay = Field(
        "auto",
        description="The weight decay, on matrices alone. auto: 0.01 with adamw, and 0.0001 with sgd, to whose "
        "gradient it is added.",
    )
    shards: Shards = Field(
        "auto",
        description="The parts of a step that processes compute apart, a power of two. With the same shards a training "
        "ends with the same bits on any number of processes, on a CPU, with as many threads each. auto: one for each "
        "process, or those that its checkpoint has.",
    )
    tables: Literal["whole", "sharded"] = Field(
        "whole",
        description="What each process has of a table of vectors of categories with 100,000 rows or more: all of it, "
        "or its share of the rows, which the others fetch in each step. sharded ends with the same bits on any number "
        "of processes, on a CPU. It clips gradients by a norm that differs from that of whole in its last bits.",
    )
    watchdog: Duration = Field(
        10 * 60,
        description="The longest time in which no process of a training gets on, as where its own code waits for ever. "
        "Then the stacks of all are logged, and training goes on from its newest checkpoint.",
    )
    seed: int = Field(0, ge=0, lt=2**31, description="The seed of all random numbers.")
    valid_days: int = Field(
        1,
        ge=0,
        description="Days before the held-out days that say when the model no longer gets better; the last steps of "
        "training learn from them too. 0 switches that off: all steps are taken. With few rows a day, a plateau is "
        "chance: take 0, more days, or more patience.",
    )
    patience: int = Field(
        10,
        ge=1,
        description="After this many evaluations without a better validation metric training goes back to the best "
        "weights, and the learning rate falls to 0 from there.",
    )
    checkpoint: Checkpoint = Field(default_factory=Checkpoint)
    profile: bool = Field(
        default=False,
        description="Whether some steps after the warm-up are profiled: a page says what training waits for, beside a "
        "trace. The model has the same bits; a result that was made without a profile is made again, to have one.",
    )
    refit: bool = Field(
        default=False,
        description="Whether a model with the verdict promote is trained once more, by the same recipe, on the "
        "validation and held-out days too, and that model is shipped. Its own score cannot be measured. With "
        "evaluate.holdout_days above 1 the refit leaves out the days that later nights still hold out.",
    )

    @property
    def rates(self) -> tuple[float, float]:
        """The learning rate and the weight decay, those of the optimizer where they are auto."""
        rate, decay = _RATES[self.optimizer]
        return (
            rate if self.learning_rate == "auto" else self.learning_rate,
            decay if self.weight_decay == "auto" else self.weight_decay,
        )
