"""From the pipeline's file and what was fitted to a model that has not been trained."""

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from ratchet.contracts.category_statistics import name_of, statistics_of
from ratchet.contracts.made_columns import made_columns
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.summaries import FeatureSet
from ratchet.contracts.training import Model
from ratchet.model.description import Architecture, CategoricalColumn, Description, GroupColumn, NumericColumn
from ratchet.model.fitted_state import FittedState
from ratchet.model.list_columns import lists, vectors
from ratchet.model.lists import own
from ratchet.model.networks import Network, Predictor
from ratchet.model.saving import code_digest

_SHORTEST, _LONGEST = 2, 32
_Model = TypeVar("_Model", bound=Predictor)


def describe(spec: PipelineSpec, folder: Path, features: FeatureSet, fitted: FittedState) -> Description:
    """What the model is. folder: the pipeline's, which holds its own code."""
    columns, settings = spec.columns, spec.train.model
    sizes = [len(ids) for ids in fitted.vocabulary]
    lengths = [dimension(size) if settings.embedding_dim == "auto" else settings.embedding_dim for size in sizes]
    several = lists(spec)
    names = [*features.categorical, *(one.name for one in own(several))]
    tables = {name: (size, length) for name, size, length in zip(names, sizes, lengths, strict=True)}
    return Description(
        objective=spec.train.objective,
        numeric=(
            *(NumericColumn(name=name, transform=columns[name].transform) for name in features.numeric),
            *(NumericColumn(name=name_of(name, each), transform=None, of=name) for name, each in statistics_of(spec)),
        ),
        categorical=tuple(
            CategoricalColumn(
                name=name,
                type=columns[name].type,
                vocabulary=tables[name][0],
                dimension=tables[name][1],
            )
            for name in features.categorical
        ),
        vectors=vectors(spec),
        lists=tuple(
            replace(one, vocabulary=tables[one.share or one.name][0], dimension=tables[one.share or one.name][1])
            for one in several
        ),
        derived={name: column.type for name, column in columns.items() if column.derived},
        made={one.name: one.model_dump(mode="json", exclude_none=True) for one in made_columns(columns)},
        architecture=_architecture(settings, fitted),
        group=GroupColumn(name=spec.group, type=columns[spec.group].type) if spec.group else None,
        code=code_digest(folder),
        classes=len(columns[spec.label].allowed or ()) if spec.train.objective == "multiclass" else 1,
    )


def _architecture(settings: Model, fitted: FittedState) -> Architecture:
    if settings.is_boosted:
        return Architecture(kind=settings.kind, hidden=(), cross_layers=0, dropout=0.0)
    plain = ":" in settings.kind or settings.kind == "linear"  # no layers of ours before or beside its own
    bins = 0 if plain else max((len(ends) - 1 for ends in fitted.edges), default=0)
    return Architecture(
        kind=settings.kind,
        hidden=settings.hidden,
        cross_layers=settings.cross_layers,
        dropout=settings.dropout,
        bins=max(bins, 0),
        number_dim=settings.number_dim if bins > 0 else 0,
        masked=0.0 if plain else settings.masked,
        skip=not plain,
        members=settings.members if settings.kind == "tabm" else 1,
    )


def fit(network: _Model, fitted: FittedState) -> _Model:
    """Put the values that were fitted on the training days into the model's buffers."""
    preprocess = network.preprocess
    preprocess.mean.copy_(torch.from_numpy(fitted.mean if isinstance(network, Network) else _middle(fitted)))
    preprocess.scale.copy_(torch.from_numpy(fitted.std))
    preprocess.vocabulary.copy_(torch.from_numpy(np.concatenate([*fitted.vocabulary, np.zeros(0, np.int64)])))
    preprocess.statistics.copy_(torch.from_numpy(fitted.statistics))
    if isinstance(network, Network) and network.numbers is not None:
        network.numbers.fit(tuple(torch.from_numpy(ends) for ends in fitted.edges))
    network.label_mean.fill_(fitted.label_mean)
    network.label_scale.fill_(fitted.label_std)
    return network


def _middle(fitted: FittedState) -> NDArray[np.float64]:
    """A value in the middle of each numeric column; the mean of one without values.

    Around it, numbers of float32 stay apart beside a wild value, which the mean is drawn to.
    """
    of_edges = np.array([ends[(len(ends) - 1) // 2] if len(ends) else 0.0 for ends in fitted.edges], np.float64)
    return of_edges * fitted.std + fitted.mean


def dimension(vocabulary: int) -> int:
    """The length of the vectors of a column: about 1.6 n^0.56 for n categories, as a power of two from 2 to 32."""
    wanted = 1.6 * max(vocabulary, 1) ** 0.56
    return int(min(max(2 ** round(np.log2(wanted)), _SHORTEST), _LONGEST))
