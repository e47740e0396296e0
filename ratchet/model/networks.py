"""From encoded rows to scores: preprocessing whose fitted state is part of the model, then the layers.

What is fitted sits in buffers, so it is saved, loaded and checked with the weights: training and serving cannot differ.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ratchet.contracts.own_module import OF_GROUPS
from ratchet.model.bodies import body
from ratchet.model.description import Description
from ratchet.model.inputs import Embeddings, Numbers
from ratchet.model.layers import Layers
from ratchet.model.lists import NOTHING, pool
from ratchet.model.preprocess import Preprocess
from ratchet.model.transfer import to_device


class _Inputs(NamedTuple):
    """What rows are to the layers; lists: the vectors of the values of each, weights: those of the values."""

    numbers: Tensor
    vectors: Tensor
    wide: list[Tensor]
    lists: list[Tensor]
    weights: list[Tensor]
    pooled: list[Tensor]


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
        inputs += sum(column.dimension + 1 for column in description.vectors)
        inputs += sum(column.dimension for column in description.lists)
        if architecture.number_dim and description.numeric:
            self.numbers = Numbers(len(description.numeric), architecture.bins, architecture.number_dim)
            inputs += len(description.numeric) * architecture.number_dim
        self.embedding = Embeddings(description.categorical, architecture.masked, description.lists)
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
        given = self._inputs(standard, masked)
        inputs = [given.numbers, given.vectors, *given.wide, *given.pooled]
        if self.numbers is not None:
            inputs.insert(1, self.numbers(standard[:, : self.preprocess.plain]))
        x = torch.cat(inputs, dim=1)
        if self._asks is None:
            out: Tensor = self.body(x)
        else:
            out = self.body(**self._named(x, given, places, sizes))
        self._check(out, len(x))
        return out.squeeze(-1) if out.dim() > 1 and self._classes == 1 else out

    def _inputs(self, standard: Tensor, places: Tensor) -> _Inputs:
        """What rows are to the layers, beside the vectors of numbers."""
        vectors, of_lists = self.embedding(places)
        weights = self.preprocess.weights(standard, places)
        lists = zip(self.preprocess.lists, of_lists, weights, strict=True)
        return _Inputs(
            numbers=self.preprocess.numbers(standard),
            vectors=vectors,
            wide=self.preprocess.wide(standard),
            lists=of_lists,
            weights=weights,
            pooled=[pool(*of_list, exact=not self.training) for of_list in lists],
        )

    def _named(self, x: Tensor, found: _Inputs, places: Tensor, sizes: Tensor | None) -> dict[str, object]:
        """What the layers ask for by name, see ratchet.contracts.own_module."""
        asks = self._asks or ()
        lists = [column.name for column in self.preprocess.lists]
        given: dict[str, object] = {"x": x}
        given["numbers"], given["missing"] = found.numbers.chunk(2, dim=1)
        given["lists"] = dict(zip(lists, found.lists, strict=True))
        given["list_weights"] = dict(zip(lists, found.weights, strict=True))
        given["vector_columns"] = {
            column.name: part for column, part in zip(self.preprocess.vectors, found.wide, strict=True)
        }
        if "vectors" in asks:
            columns = sorted(self._categorical, key=lambda column: column.dimension)
            parts = torch.split(found.vectors, [column.dimension for column in columns], dim=1)
            by_name = {column.name: part for column, part in zip(columns, parts, strict=True)}
            pooled = dict(zip(lists, found.pooled, strict=True))
            given["vectors"] = {column.name: by_name[column.name] for column in self._categorical} | pooled
        if "places" in asks:
            lengths = [column.length for column in self.preprocess.lists]
            own = torch.where(places == NOTHING, NOTHING, places - self.embedding.first)
            alone, *by_list = torch.split(own, [len(self._categorical), *lengths], dim=1)
            named = zip(self._categorical, alone.unbind(1), strict=True)
            given["places"] = {column.name: place for column, place in named} | dict(zip(lists, by_list, strict=True))
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
