"""From encoded rows to scores: preprocessing whose fitted state is part of the model, then the layers.

What is fitted sits in buffers, so it is saved, loaded and checked with the weights: training and serving cannot differ.
"""

import math
from collections.abc import Callable, Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from ratchet.model.description import Architecture, Description
from ratchet.model.inputs import Embeddings, Numbers

_FAR = 10.0
"""Standardised numbers are cut here, so that one wild value does not drown all others."""


class Preprocess(nn.Module):
    """Numbers standardised with a flag for missing ones; stable ids looked up in the vocabulary.

    Buffers: mean, scale float64 [numeric] of the transformed values of the training days; flagged [numeric], whether a
    missing value has its flag; vocabulary [all values], the sorted ids that each categorical column knows, one column
    after the other.
    """

    mean: Tensor
    scale: Tensor
    flagged: Tensor
    vocabulary: Tensor

    def __init__(self, description: Description) -> None:
        super().__init__()
        count = len(description.numeric)
        self.sizes = [column.vocabulary for column in description.categorical]
        logarithmic = [column.transform == "log1p" for column in description.numeric]
        self.logarithmic = [index for index, is_so in enumerate(logarithmic) if is_so]
        self.register_buffer("mean", torch.zeros(count, dtype=torch.float64))
        self.register_buffer("scale", torch.ones(count, dtype=torch.float64))
        self.register_buffer("flagged", torch.ones(count, dtype=torch.bool))
        self.register_load_state_dict_pre_hook(_add_flags)  # type: ignore[no-untyped-call]  # torch has no types here
        self.register_buffer("vocabulary", torch.zeros(sum(self.sizes), dtype=torch.int64))

    @property
    def rows(self) -> int:
        """Rows of the embedding table: each column's values, and one for what it does not know."""
        return sum(self.sizes) + len(self.sizes)

    def standardise(self, numeric: Tensor) -> Tensor:
        """Numbers [rows, numeric] with NaN for missing -> float32, transformed, in deviations from the mean.

        NaN where a value is missing, or outside the domain of its transform. All of it is computed in float64, around
        the mean of the training days, so that large numbers that lie close together, such as times, stay apart.
        """
        values = numeric.to(self.mean.dtype, copy=True)
        for column in self.logarithmic:  # by itself: parts for threads would begin and end where its vectors do not
            values[:, column] = torch.log1p(values[:, column].contiguous())
        missing = ~torch.isfinite(values)
        values.sub_(self.mean).div_(self.scale)
        return values.masked_fill_(missing, torch.nan).float()

    def value(self, standard: float, column: int) -> float:
        """The raw value of a numeric column that `standardise` maps to this number."""
        transformed = standard * float(self.scale[column]) + float(self.mean[column])
        return math.expm1(transformed) if column in self.logarithmic else transformed

    def compute_in(self, kind: torch.dtype) -> None:
        """Standardise in another precision. Models of before have float32 buffers, and score as they did in float32."""
        self.mean, self.scale = self.mean.to(kind), self.scale.to(kind)

    def numbers(self, standard: Tensor) -> Tensor:
        """What `standardise` makes -> float32 [rows, 2 * numeric]: cut at 10 deviations, then flags of the missing.

        A missing value in a column that was never missing in training scores as the mean: no weight of its flag was
        trained.
        """
        missing = torch.isnan(standard)
        scaled = torch.where(missing, 0.0, standard.clamp(-_FAR, _FAR))
        return torch.cat([scaled, (missing & self.flagged).to(standard.dtype)], dim=1)

    def unknown(self) -> list[int]:
        """The rows of the embedding table for what the columns do not know."""
        sizes = [0, *self.sizes[:-1]] if self.sizes else []
        return [begin + column for column, begin in enumerate(accumulate(sizes))]

    def places(self, ids: Tensor) -> Tensor:
        """Stable ids, int64 [rows, categorical] -> rows of the embedding table, int32 [rows, categorical].

        The first row of a column is `unknown`. A row of int32 takes half the memory, and tables have fewer than 2^31.
        """
        found = torch.empty(ids.shape, dtype=torch.int32, device=ids.device)
        begin = 0
        for column, size in enumerate(self.sizes):
            known = self.vocabulary[begin : begin + size]
            wanted = ids[:, column].contiguous()
            place = torch.searchsorted(known, wanted)
            hit = place < size
            hit &= known[place.clamp(max=max(size - 1, 0))] == wanted if size else hit
            found[:, column] = torch.where(hit, place + 1, 0) + begin + column
            begin += size
        return found


def _add_flags(_preprocess: nn.Module, state: dict[str, Tensor], prefix: str, *_: object) -> None:
    """A model of before has a flag for every column."""
    if f"{prefix}mean" in state:
        state.setdefault(f"{prefix}flagged", torch.ones_like(state[f"{prefix}mean"], dtype=torch.bool))


class Network(nn.Module):
    """A whole model: `forward` takes what `encoding` makes of raw rows."""

    label_mean: Tensor
    label_scale: Tensor

    def __init__(self, description: Description, custom: Callable[[int], nn.Module] | None = None) -> None:
        """custom: the pipeline's own module, given the number of inputs, where the architecture names one."""
        super().__init__()
        architecture = description.architecture
        self.preprocess = Preprocess(description)
        self.numbers: Numbers | None = None
        inputs = 2 * len(description.numeric) + sum(column.dimension for column in description.categorical)
        if architecture.number_dim and description.numeric:
            self.numbers = Numbers(len(description.numeric), architecture.bins, architecture.number_dim)
            inputs += len(description.numeric) * architecture.number_dim
        self.embedding = Embeddings(description.categorical, architecture.masked)
        self.body = custom(inputs) if custom else body(architecture, inputs, description.classes)
        self.register_buffer("label_mean", torch.zeros((), dtype=torch.float64))
        self.register_buffer("label_scale", torch.ones((), dtype=torch.float64))

    @property
    def computes_in(self) -> torch.dtype:
        """The precision of what is fitted: float64; float32 in a model of before."""
        return self.preprocess.mean.dtype

    def forward(self, numeric: Tensor, ids: Tensor) -> Tensor:
        """Scores [rows], or [rows, classes] as logits, of rows as `encoding` makes them."""
        return self.scores(self.preprocess.standardise(numeric), self.preprocess.places(ids))

    def scores(self, standard: Tensor, places: Tensor) -> Tensor:
        """The same for numbers that are standardised already, and ids that have been looked up."""
        inputs = [self.preprocess.numbers(standard), self.embedding(places)]
        if self.numbers is not None:
            inputs.insert(1, self.numbers(standard))
        out: Tensor = self.body(torch.cat(inputs, dim=1))
        return out.squeeze(1) if out.dim() == 2 and out.shape[1] == 1 else out  # noqa: PLR2004 - rows and outputs


def load_weights(network: Network, weights: dict[str, Tensor]) -> None:
    """Give a network its weights and its precision: a model whose buffers are float32 computes as it was trained.

    Raises RuntimeError for weights of another network.
    """
    network.load_state_dict(weights)
    network.preprocess.compute_in(weights["preprocess.mean"].dtype)
    kind = weights["label_scale"].dtype
    network.label_mean, network.label_scale = network.label_mean.to(kind), network.label_scale.to(kind)


def finish(network: Network, objective: str, raw: Tensor) -> Tensor:
    """What the network's output means for an objective: a probability, a value on the label's scale, or a score."""
    if objective == "binary":
        return torch.sigmoid(raw)
    if objective == "multiclass":
        return torch.softmax(raw, dim=1)
    if objective == "regression":  # in float64 a small spread around a large mean keeps its digits
        return raw.to(network.label_scale.dtype) * network.label_scale + network.label_mean
    return raw


class Cross(nn.Module):
    """Cross layers of a DCN-V2 (Wang et al. 2021, eq. 1): x_next = x0 * (W x + b) + x. [rows, inputs] both ways."""

    def __init__(self, inputs: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(inputs, inputs) for _ in range(layers))

    def forward(self, first: Tensor) -> Tensor:
        """Explicit feature crosses of an order that grows by one with each layer."""
        crossed = first
        for layer in self.layers:
            crossed = first * layer(crossed) + crossed
        return crossed


def body(architecture: Architecture, inputs: int, outputs: int) -> nn.Module:
    """The layers of one of our own architectures."""
    if architecture.kind == "linear":
        return nn.Linear(inputs, outputs)
    deep = _deep(architecture.hidden, inputs, architecture.dropout)
    layers = deep if architecture.kind == "mlp" else [Cross(inputs, architecture.cross_layers), *deep]
    width = architecture.hidden[-1] if architecture.hidden else inputs
    made = nn.Sequential(*layers, nn.Linear(width, outputs))
    return Beside(nn.Linear(inputs, outputs), made) if architecture.skip else made


class Beside(nn.Module):
    """The sum of a linear layer and of others, as in Wide & Deep (Cheng et al. 2016). [rows, inputs] both ways."""

    def __init__(self, linear: nn.Linear, deep: nn.Module) -> None:
        super().__init__()
        self.linear, self.deep = linear, deep
        nn.init.zeros_(linear.weight)
        nn.init.zeros_(linear.bias)

    def forward(self, inputs: Tensor) -> Tensor:
        """Both see the same inputs."""
        total: Tensor = self.linear(inputs) + self.deep(inputs)
        return total


def _deep(widths: Sequence[int], inputs: int, dropout: float) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        if dropout:
            layers.append(nn.Dropout(dropout))
        inputs = width
    return layers
