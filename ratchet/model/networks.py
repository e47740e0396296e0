"""From encoded rows to scores: preprocessing whose fitted state is part of the model, then the layers.

What is fitted sits in buffers, so it is saved, loaded and checked with the weights: training and serving cannot differ.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import reduce
from itertools import accumulate

import torch
from torch import Tensor, nn

from ratchet.contracts.own_module import OF_GROUPS
from ratchet.model.bodies import body
from ratchet.model.description import Description
from ratchet.model.inputs import Embeddings, Numbers
from ratchet.model.layers import Layers
from ratchet.model.transfer import to_device

_FAR = 10.0
"""Standardised numbers are cut here, so that one wild value does not drown all others."""


class Preprocess(nn.Module):
    """Numbers standardised with a flag for missing ones; stable ids looked up in the vocabulary.

    Buffers: mean, scale float64 [numeric] of the transformed values of the training days; flagged [numeric], whether a
    missing value has its flag; vocabulary [all values], the sorted ids that each categorical column knows, one column
    after the other; statistics float64, of each statistic of a category its value for what the column does not know,
    then for each id that it knows.
    """

    mean: Tensor
    scale: Tensor
    flagged: Tensor
    vocabulary: Tensor
    statistics: Tensor

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
        names, self._statistics, length = [column.name for column in description.categorical], [], 0
        for column in (names.index(one.of) for one in description.numeric if one.of is not None):
            self._statistics.append((column, length - sum(self.sizes[:column]) - column))
            length += self.sizes[column] + 1
        statistics = torch.zeros(length, dtype=torch.float64)
        self.register_buffer("statistics", statistics, persistent=length > 0)

    @property
    def rows(self) -> int:
        """Rows of the embedding table: each column's values, and one for what it does not know."""
        return sum(self.sizes) + len(self.sizes)

    def with_statistics(self, numeric: Tensor, places: Tensor, statistics: Tensor | None = None) -> Tensor:
        """Beside numbers of rows, the statistics of their categories: the numbers that `standardise` takes.

        places: as `places` gives them. statistics: instead of the buffer, as where a row's own day does not count.
        """
        if not self._statistics:
            return numeric
        table = self.statistics if statistics is None else statistics
        found = [table[places[:, column].long() + shift].unsqueeze(1) for column, shift in self._statistics]
        return torch.cat([numeric.to(table.dtype), *found], dim=1)

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

    def mask_statistics(self, standard: Tensor, places: Tensor, first: Tensor) -> Tensor:
        """What `standardise` made, with the statistics of what is not known where `places` say that a category is not.

        first: the place of each column for that.
        """
        if not self._statistics:
            return standard
        own = standard.shape[1] - len(self._statistics)
        unknown = self.standardise(self.with_statistics(standard.new_zeros(1, own), first.unsqueeze(0)))[:, own:]
        is_unknown = torch.stack([places[:, column] == first[column] for column, _ in self._statistics], dim=1)
        return torch.cat([standard[:, :own], torch.where(is_unknown, unknown, standard[:, own:])], dim=1)

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


class Predictor(nn.Module, ABC):
    """A model of encoded rows, of any kind: preprocessing and a label's scale in buffers, and `scores`.

    has_members: whether `scores` has a column for each member. reads_groups: whether it needs the sizes of groups.
    """

    label_mean: Tensor
    label_scale: Tensor
    body: nn.Module
    has_members = False
    reads_groups = False

    def __init__(self, description: Description) -> None:
        super().__init__()
        self.preprocess = Preprocess(description)
        self.register_buffer("label_mean", torch.zeros((), dtype=torch.float64))
        self.register_buffer("label_scale", torch.ones((), dtype=torch.float64))

    @property
    def computes_in(self) -> torch.dtype:
        """The precision of what is fitted: float64; float32 in a model of before."""
        return self.preprocess.mean.dtype

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.preprocess.mean.device

    def forward(self, numeric: Tensor, ids: Tensor, sizes: Tensor | None = None) -> Tensor:
        """Raw outputs of rows as `encoding` makes them. sizes: as in `scores`.

        [rows], or [rows, classes] as logits; of a network with members [rows, members], or [rows, members, classes].
        """
        places = self.preprocess.places(ids)
        return self.scores(self.preprocess.standardise(self.preprocess.with_statistics(numeric, places)), places, sizes)

    @abstractmethod
    def scores(self, standard: Tensor, places: Tensor, sizes: Tensor | None = None) -> Tensor:
        """The same for numbers that are standardised already, and ids that have been looked up.

        sizes: int64 [groups], the rows of each group, which lie next to each other; needed where `reads_groups`.
        """


class Network(Predictor):
    """Layers after the preprocessing."""

    def __init__(self, description: Description, custom: Callable[[int], Layers] | None = None) -> None:
        """custom: the pipeline's own module, given the number of inputs, where the architecture names one."""
        super().__init__(description)
        architecture = description.architecture
        self.numbers: Numbers | None = None
        inputs = 2 * len(description.numeric) + sum(column.dimension for column in description.categorical)
        if architecture.number_dim and description.numeric:
            self.numbers = Numbers(len(description.numeric), architecture.bins, architecture.number_dim)
            inputs += len(description.numeric) * architecture.number_dim
        self.embedding = Embeddings(description.categorical, architecture.masked)
        layers = custom(inputs) if custom else body(architecture, inputs, description.classes)
        self.body, self._asks, self._check = layers
        self.has_members = architecture.kind == "tabm"
        self.reads_groups = self.asks_for(*OF_GROUPS)
        self._categorical, self._classes = description.categorical, description.classes

    def asks_for(self, *names: str) -> bool:
        """Whether the layers ask for one of these by name."""
        return not set(names).isdisjoint(self._asks or ())

    def scores(self, standard: Tensor, places: Tensor, sizes: Tensor | None = None) -> Tensor:
        """See Predictor."""
        masked = self.embedding.mask(places)
        if masked is not places:
            standard = self.preprocess.mask_statistics(standard, masked, self.embedding.first)
        numbers, vectors = self.preprocess.numbers(standard), self.embedding(masked)
        inputs = [numbers, vectors]
        if self.numbers is not None:
            inputs.insert(1, self.numbers(standard))
        x = torch.cat(inputs, dim=1)
        if self._asks is None:
            out: Tensor = self.body(x)
        else:
            out = self.body(**self._named(x, numbers, vectors, places, sizes))
        self._check(out, len(x))
        return out.squeeze(-1) if out.dim() > 1 and self._classes == 1 else out

    def _named(
        self, x: Tensor, numbers: Tensor, vectors: Tensor, places: Tensor, sizes: Tensor | None
    ) -> dict[str, object]:
        """What the layers ask for by name, see ratchet.contracts.own_module."""
        asks = self._asks or ()
        given: dict[str, object] = {"x": x}
        given["numbers"], given["missing"] = numbers.chunk(2, dim=1)
        if "vectors" in asks:
            columns = sorted(self._categorical, key=lambda column: column.dimension)
            parts = torch.split(vectors, [column.dimension for column in columns], dim=1)
            by_name = {column.name: part for column, part in zip(columns, parts, strict=True)}
            given["vectors"] = {column.name: by_name[column.name] for column in self._categorical}
        if "places" in asks:
            own = (places - self.embedding.first).unbind(1)
            given["places"] = {column.name: place for column, place in zip(self._categorical, own, strict=True)}
        if self.reads_groups:
            if sizes is None:
                raise ValueError("these layers need the sizes of groups")
            given["sizes"] = sizes = sizes.cpu()
            numbered = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
            given["groups"] = to_device(numbered, x.device)
        return {name: given[name] for name in asks}


def load_weights(network: Predictor, weights: dict[str, Tensor]) -> None:
    """Give a network its weights and its precision: a model whose buffers are float32 computes as it was trained.

    Raises RuntimeError for weights of another network.
    """
    network.load_state_dict(weights)
    network.preprocess.compute_in(weights["preprocess.mean"].dtype)
    kind = weights["label_scale"].dtype
    network.label_mean, network.label_scale = network.label_mean.to(kind), network.label_scale.to(kind)


def finish(network: Predictor, objective: str, raw: Tensor) -> Tensor:
    """What the network's output means for an objective: a probability, a value on the label's scale, or a score.

    Of a network with members, the mean of what their outputs mean.
    """
    final = _meaning(network, objective, raw)
    if not network.has_members:
        return final
    members = final.unbind(1)
    return reduce(torch.add, members) / len(members)  # in this order for each row, wherever it is


def _meaning(network: Predictor, objective: str, raw: Tensor) -> Tensor:
    if objective == "binary":
        return torch.sigmoid(raw)
    if objective == "multiclass":
        return torch.softmax(raw, dim=-1)
    if objective == "regression":  # in float64 a small spread around a large mean keeps its digits
        return raw.to(network.label_scale.dtype) * network.label_scale + network.label_mean
    return raw
