"""Which weights of our own layers read which input: the columns that a warm start copies them by."""

from collections.abc import Iterator

from torch import nn

from ratchet.model.bodies import Beside, Cross, Members
from ratchet.model.description import CategoricalColumn, Description, ListColumn
from ratchet.model.lists import own
from ratchet.model.sets import SetLayers


def reading(body: nn.Module) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names of the tensors of one of our own bodies that have an axis of inputs, and these axes."""
    if isinstance(body, Beside | SetLayers):
        yield "linear.weight", (1,)
        yield from ((f"deep.{name}", axes) for name, axes in reading(body.deep))
        if isinstance(body, SetLayers) and not _has_hidden(body.deep):
            yield "head.weight", (1,)
            yield from ((f"attention.{name}.weight", (1,)) for name in ("queries", "keys", "values"))
            yield from (("attention.out.weight", (0,)), ("attention.out.bias", (0,)))
    elif isinstance(body, Members):
        yield "scale", (1,)
        yield from ((f"deep.{name}", axes) for name, axes in reading(body.deep))
        if not _has_hidden(body.deep):
            yield "heads.weight", (1,)
    elif isinstance(body, nn.Linear):
        yield "weight", (1,)
    else:
        for place, layer in body.named_children():
            if isinstance(layer, Cross):
                for number in range(len(layer.layers)):
                    yield f"{place}.layers.{number}.weight", (0, 1)
                    yield f"{place}.layers.{number}.bias", (0,)
            elif isinstance(layer, nn.Linear):
                yield f"{place}.weight", (1,)
                return


def _has_hidden(deep: nn.Module) -> bool:
    """Whether layers have a width of their own; else what follows them reads the inputs."""
    return any(isinstance(layer, nn.Linear) for layer in deep.children())


def inputs_of(description: Description) -> list[tuple[str, str, int]]:
    """What each input of the body is: a column, the part of it, and the number in this part."""
    numeric = [f"{name} {transform}" for name, transform in numbers_of(description)[: len(description.numeric)]]
    found = [(name, part, 0) for part in ("number", "missing") for name in numeric]
    found += [(name, "vector", place) for name in numeric for place in range(description.architecture.number_dim)]
    for dimension in sorted({one.dimension for one in description.categorical}):
        found += [
            (f"{one.name} {one.type}", "category", place)
            for one in description.categorical
            if one.dimension == dimension
            for place in range(dimension)
        ]
    for vector in description.vectors:
        found += [(vector.name, "element", place) for place in range(vector.dimension)]
        found.append((vector.name, "missing vector", 0))
    for one in description.lists:
        pooled = f"{one.name} {one.type} {one.pool} {one.weights}"
        found += [(pooled, "list", place) for place in range(one.dimension)]
    return found


def numbers_of(description: Description) -> list[tuple[str, str | int | None]]:
    """What each number that is standardised is: a column and its transform, or a vector and the place in it."""
    found: list[tuple[str, str | int | None]] = [(one.name, one.transform) for one in description.numeric]
    return found + [(one.name, place) for one in description.vectors for place in range(one.dimension)]


def tables_of(description: Description) -> list[CategoricalColumn | ListColumn]:
    """The columns with vectors of their own, in the order of the vocabulary."""
    return [*description.categorical, *own(description.lists)]
