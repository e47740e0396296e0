"""How a model is trained."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from ratchet.contracts.document import Document
from ratchet.contracts.quantities import Duration

Objective = Literal["ranking", "binary", "regression", "multiclass"]


def _parse_kind(value: object) -> object:
    if value in ("mlp", "dcn", "linear"):
        return value
    module, separator, name = value.partition(":") if isinstance(value, str) else ("", "", "")
    if separator and module == "model.py" and name.isidentifier():
        return value
    raise ValueError(f'{value!r} is not a model; allowed: mlp, dcn, linear, "model.py:MyModule"')


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


class Model(Document):
    """The architecture. `dcn` is a deep and cross network (Wang et al. 2021), `mlp` the same without the crosses."""

    kind: ModelKind = Field("dcn", description="dcn, mlp, linear, or a class of the pipeline's own model.py.")
    embedding_dim: int = Field(16, ge=1, le=1024, description="Length of a category's vector.")
    hidden: tuple[Annotated[int, Field(ge=1, le=65_536)], ...] = Field((256, 128), description="Widths of the layers.")
    cross_layers: int = Field(2, ge=1, le=16, description="dcn only: how many cross layers.")
    dropout: float = Field(0.0, ge=0, lt=1, description="Share of activations left out in training.")
    min_count: int = Field(2, ge=1, description="A category seen less often in training counts as unknown.")


class Checkpoint(Document):
    """When the state of training is saved, besides the end of each epoch."""

    every: Duration = Field(20 * 60, description="At most this long between two.")
    keep: int = Field(3, ge=1, le=100, description="How many of the newest are kept; the best one is kept apart.")


class Train(Document):
    """What is trained, and how long."""

    objective: Objective = Field(description="What the model is for; it decides the loss.")
    model: Model = Field(default_factory=Model)
    epochs: int = Field(3, ge=1, le=10_000, description="At most; early stopping may end sooner.")
    batch_size: BatchSize = Field("auto", description="Rows in a step.")
    learning_rate: float = Field(1e-3, gt=0, le=10, description="Of AdamW.")
    weight_decay: float = Field(1e-5, ge=0, description="Of AdamW.")
    seed: int = Field(0, ge=0, lt=2**31, description="Of everything random.")
    valid_days: int = Field(1, ge=0, description="Days before the hold-out that decide on early stopping.")
    patience: int = Field(2, ge=1, description="Epochs without a better validation metric before training stops.")
    checkpoint: Checkpoint = Field(default_factory=Checkpoint)
