"""A training that begins with the weights of another model: what fits is copied, and the rest is as in a fresh start.

Tensors are copied by name where their shapes agree, vectors of categories by the stable id of the category, and the
weights that read an input by the column that the input belongs to. A number and a label keep the standardisation of the
parent while it fits, and a number its bins: then the network begins as the very function that its parent is.

A change here violates the promise of the project when a weight is copied to another column, category or class, or a
weight that was not copied is counted as copied.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ratchet.model.description import CategoricalColumn, Description, ListColumn
from ratchet.model.networks import Network
from tasks.train.body_inputs import inputs_of, numbers_of, reading, tables_of
from tasks.train.settings import Recipe, Settings

_MOST_SHIFT, _MOST_STRETCH = 0.5, 1.5
"""The standardisation of the parent fits while the new mean is within half a deviation of the parent's, and the new
deviation within a factor of 1.5."""
_SHARE = 0.2
"""Of the epochs of the last training without a parent: so long is one with a parent, all of it with a falling rate.
More steps gain nothing, against a fresh training each night (benchmarks/README.md, `warm`)."""
_TABLES = "embedding.tables."
_MEASURED = ("running_mean", "running_var", "num_batches_tracked")
"""Buffers that a training fills, those of norms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What a warm start has copied.

    parameters: numbers of the layers, of `of_parameters`. rows: vectors of categories, of `of_rows`; a column's vector
    for what it does not know is one of them. refitted: shared columns that have moved too far for the standardisation
    of the parent, and `the label`.
    """

    parameters: int
    of_parameters: int
    rows: int
    of_rows: int
    refitted: tuple[str, ...]


def warm_start(
    network: Network, description: Description, weights: Mapping[str, Tensor], parent: Description
) -> Copied:
    """Copy into a network what fits of its parent's weights.

    network: on the host, with the buffers that were fitted on its own days. weights: the parent's, by name.
    description, parent: of the two, which have the same objective.
    """
    start = _Start(network, description, weights, parent)
    with torch.no_grad():
        refitted = [*start.copy_standardisation(), *start.copy_label()]
        parameters = start.copy_numbers() + start.copy_body()
        rows = start.copy_vectors()
    tables = [weight for name, weight in network.named_parameters() if name.startswith(_TABLES)]
    return Copied(
        parameters=parameters,
        of_parameters=sum(weight.numel() for weight in network.parameters()) - sum(map(Tensor.numel, tables)),
        rows=rows,
        of_rows=network.preprocess.rows,
        refitted=tuple(refitted),
    )


def shorten(settings: Settings, *, epochs: float, rows: int) -> Settings:
    """The settings of a training that begins with a parent; those of one that repeats a recipe stay as they are.

    epochs: passes over its rows that the last training without a parent took. rows: of training and validation days.
    """
    if settings.recipe is not None:
        return settings
    most = min(settings.epochs, settings.steps * settings.batch_size / rows)
    return replace(settings, recipe=Recipe(level=0.0, fall=min(max(epochs * _SHARE, 1.0), most)))


class _Start:
    def __init__(
        self, network: Network, description: Description, weights: Mapping[str, Tensor], parent: Description
    ) -> None:
        self._network, self._weights = network, weights
        self._mine, self._parent = description, parent
        ours = {one: place for place, one in enumerate(numbers_of(parent))}
        self._standardised = numbers_of(description)
        self._numbers = [(here, ours[one]) for here, one in enumerate(self._standardised) if one in ours]
        self._kept: set[int] = set()

    def copy_standardisation(self) -> list[str]:
        """Means and deviations of numbers where they fit. Returns the columns where they do not."""
        mine, refitted = self._network.preprocess, []
        means, scales = self._weights["preprocess.mean"].double(), self._weights["preprocess.scale"].double()
        for here, there in self._numbers:
            fits = _fits(mine.mean[here], mine.scale[here], means[there], scales[there])
            if fits and (here >= len(self._mine.numeric) or self._bins_fit(there)):
                mine.mean[here], mine.scale[here] = means[there], scales[there]
                self._kept.add(here)
            else:
                refitted.append(self._standardised[here][0])
        return list(dict.fromkeys(refitted))

    def _bins_fit(self, there: int) -> bool:
        """Whether the bins of a number of the parent have a place: they are in units of its standardisation."""
        layer, old = self._network.numbers, self._weights.get("numbers.columns.weight")
        if layer is None:
            return True
        if old is None or old.shape[2] != layer.columns.weight.shape[2]:
            return False
        return int(self._weights["numbers.inverse"][there].count_nonzero()) <= layer.start.shape[1]

    def copy_label(self) -> list[str]:
        """Mean and deviation of the label, of a regression, where they fit."""
        mean, scale = self._network.label_mean, self._network.label_scale
        old = self._weights["label_mean"].double(), self._weights["label_scale"].double()
        if self._mine.objective != "regression":
            return []
        if not _fits(mean, scale, *old):
            return ["the label"]
        mean.copy_(old[0])
        scale.copy_(old[1])
        return []

    def copy_numbers(self) -> int:
        """Bins of numbers, and the layers that make vectors of them. Returns the parameters."""
        layer, old = self._network.numbers, self._weights.get("numbers.columns.weight")
        if layer is None or old is None or old.shape[2] != layer.columns.weight.shape[2]:
            return 0
        count = 0
        start, inverse = self._weights["numbers.start"], self._weights["numbers.inverse"]
        for here, there in self._numbers:
            if here >= len(self._mine.numeric):
                break  # numbers of vectors have no bins
            bins, room = int(inverse[there].count_nonzero()), layer.start.shape[1]
            if bins > room:
                continue
            if here in self._kept:
                layer.start[here, :bins], layer.inverse[here, :bins] = start[there, :bins], inverse[there, :bins]
                layer.inverse[here, bins:] = 0.0
            elif bins != int(layer.inverse[here].count_nonzero()):
                continue
            layer.columns.weight[here, :bins] = old[there, :bins]
            layer.columns.bias[here] = self._weights["numbers.columns.bias"][there]
            count += layer.columns.weight[here].numel() + layer.columns.bias[here].numel()
        return count

    def copy_vectors(self) -> int:
        """Vectors by the ids of their categories. Returns their number."""
        mine = self._network.state_dict()
        theirs = {(one.column.name, one.column.type): one for one in _vectors(self._parent, self._weights)}
        count = 0
        for one in _vectors(self._mine, mine):
            other = theirs.get((one.column.name, one.column.type))
            if other is None or other.table not in self._weights:
                continue
            width = min(one.column.dimension, other.column.dimension)
            to, source = _shared_rows(one, other)
            mine[one.table][to, :width] = self._weights[other.table][source, :width]
            count += len(to)
        return count

    def copy_body(self) -> int:
        """The other layers. Returns their parameters."""
        mine, theirs = inputs_of(self._mine), inputs_of(self._parent)
        where = {name: place for place, name in enumerate(theirs)}
        shared = [(here, where[name]) for here, name in enumerate(mine) if name in where]
        to, source = torch.tensor(shared, dtype=torch.int64).reshape(-1, 2).T
        own = self._mine.architecture.is_custom
        if own and (mine != theirs or self._reads_other_places()):
            return 0  # only its author knows which of its weights read what
        axes_of = {} if own else dict(reading(self._network.body))
        ours, other = self._mine.architecture, self._parent.architecture
        same_layers = (ours.kind, bool(ours.dropout)) == (other.kind, bool(other.dropout))
        parameters = {name for name, _ in self._network.body.named_parameters()}
        count = 0
        for name, weight in self._network.body.state_dict().items():
            old, axes = self._weights.get(f"body.{name}"), axes_of.get(name, ())
            if old is None or not _alike(weight, old, except_for=axes):
                continue
            if not (name in parameters or name.endswith(_MEASURED)):
                continue  # a constant of the pipeline's code
            if not (own or same_layers or name.startswith("linear.")):
                continue  # the numbers of the layers mean others
            if axes:
                weight[_grid(weight, axes, to)] = old[_grid(old, axes, source)]
            else:
                weight.copy_(old)
            if name in parameters:
                count += math.prod(len(to) if axis in axes else size for axis, size in enumerate(weight.shape))
        return count

    def _reads_other_places(self) -> bool:
        """Whether a module of the pipeline's own asks for categories that are not the parent's."""
        if not self._network.asks_for("places"):
            return False
        mine, theirs = self._network.preprocess.vocabulary, self._weights["preprocess.vocabulary"]
        sizes = [[one.vocabulary for one in tables_of(each)] for each in (self._mine, self._parent)]
        return sizes[0] != sizes[1] or not torch.equal(mine, theirs)


def _alike(weight: Tensor, old: Tensor, *, except_for: tuple[int, ...]) -> bool:
    """Whether the shapes agree, apart from some axes."""
    if weight.dim() != old.dim():
        return False
    return all(size == old.shape[axis] or axis in except_for for axis, size in enumerate(weight.shape))


def _grid(weight: Tensor, axes: tuple[int, ...], places: Tensor) -> tuple[Tensor, ...]:
    """The index of some places along some axes of a tensor, and of all along the others."""
    every = [places if axis in axes else torch.arange(size) for axis, size in enumerate(weight.shape)]
    return torch.meshgrid(*every, indexing="ij")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Vectors:
    """Where the vectors of a column are. begin: the first of its rows of `table`, for what it does not know.

    ids: those that it knows, ascending, in the rows after that.
    """

    column: CategoricalColumn | ListColumn
    table: str
    begin: int
    ids: Tensor


def _shared_rows(one: _Vectors, other: _Vectors) -> tuple[Tensor, Tensor]:
    """The rows of the ids that both know, and of what they do not know, in the tables of both."""
    _, here, there = np.intersect1d(one.ids.numpy(), other.ids.numpy(), assume_unique=True, return_indices=True)
    unknown = np.zeros(1, np.int64)
    return (
        one.begin + torch.from_numpy(np.append(unknown, 1 + here)),
        other.begin + torch.from_numpy(np.append(unknown, 1 + there)),
    )


def _vectors(description: Description, weights: Mapping[str, Tensor]) -> Iterator[_Vectors]:
    tables = tables_of(description)
    sizes = [one.vocabulary for one in tables]
    ids = torch.split(weights["preprocess.vocabulary"], sizes)
    begins: dict[int, int] = {}
    for one, known in zip(tables, ids, strict=True):
        begin = begins.get(one.dimension, 0)
        begins[one.dimension] = begin + one.vocabulary + 1
        yield _Vectors(column=one, table=f"{_TABLES}{one.dimension}.weight", begin=begin, ids=known)


def _fits(mean: Tensor, scale: Tensor, old_mean: Tensor, old_scale: Tensor) -> bool:
    """Whether numbers of this mean and deviation are well standardised by those of before."""
    stretch = float(scale / old_scale)
    return bool((mean - old_mean).abs() <= _MOST_SHIFT * old_scale) and 1 / _MOST_STRETCH <= stretch <= _MOST_STRETCH
