"""Encoded days from the store as the rows of a network."""

from collections.abc import Mapping, Sequence
from datetime import date

import numpy as np
import torch
from numpy.typing import NDArray

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.summaries import FeatureDay, FeatureSet
from ratchet.model.arrays import read_array
from ratchet.model.networks import Network
from ratchet.runtime.context import StageContext
from tasks.train.data import Rows, join, shuffled


def read(ctx: StageContext, network: Network, features: FeatureSet, *parts: Sequence[date]) -> Rows:
    """The rows of the days of each part, part by part; inside a part days are shuffled, and groups stay whole.

    Standardised by the network, which is in the host's memory. Each file is verified.
    """
    encoded = [features.of(tuple(days)) for days in parts]
    places, begin = [], 0
    for days in encoded:
        count = sum(day.rows for day in days)
        sizes = [np.diff(_array(ctx, day, "group")) for day in days if "group" in day.arrays]
        in_part = shuffled(count, np.concatenate(sizes) if sizes else None, ctx.spec.train.seed)
        places.append(in_part + begin)
        begin += count
    return join((_read_day(ctx, network, day) for days in encoded for day in days), np.concatenate(places))


def _array(ctx: StageContext, day: FeatureDay, name: str) -> NDArray[np.generic]:
    return read_array(ctx.store, day.arrays[name], ctx.disk)


def _read_day(ctx: StageContext, network: Network, day: FeatureDay) -> Rows:
    """One day's arrays, verified and loaded."""
    if {"numeric", "categorical", "label"} - set(day.arrays):
        raise RatchetError(f"{day.day}: arrays are missing", remedy="run features again with --rebuild")
    return rows_of({name: _array(ctx, day, name) for name in day.arrays}, network)


def rows_of(arrays: Mapping[str, NDArray[np.generic]], network: Network) -> Rows:
    """The arrays of summaries.FeatureDay as rows of a network; ids are looked up once for all epochs."""
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return Rows(
        numeric=network.preprocess.standardise(tensors["numeric"]),
        places=network.preprocess.places(tensors["categorical"]),
        label=tensors["label"],
        weight=tensors.get("weight"),
        sizes=tensors["group"].diff() if "group" in tensors else None,
    )
