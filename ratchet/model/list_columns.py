"""The list and vector columns of a pipeline, as a model reads them."""

from ratchet.contracts.columns import LISTS
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.model.description import ListColumn, VectorColumn


def vectors(spec: PipelineSpec) -> tuple[VectorColumn, ...]:
    """The vector columns, in the order of their numbers."""
    columns = {name: spec.columns[name] for name in spec.with_role("numeric")}
    return tuple(VectorColumn(name=name, dimension=one.dimension) for name, one in columns.items() if one.dimension)


def lists(spec: PipelineSpec) -> tuple[ListColumn, ...]:
    """The list columns, in the order of their ids: those with vectors of their own, then those that share some."""
    columns = {name: spec.columns[name] for name in spec.with_role("categorical")}
    found = [
        ListColumn(
            name=name,
            type=LISTS[one.type],
            length=one.max_length,
            keep=one.keep or "last",
            pool=one.pool or "mean",
            weights=one.weights,
            share=one.share,
        )
        for name, one in columns.items()
        if one.max_length
    ]
    return tuple(sorted(found, key=lambda one: one.share is not None))
