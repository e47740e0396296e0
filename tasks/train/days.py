"""Encoded days from the store as the rows of a network."""

from collections.abc import Sequence
from datetime import date

import numpy as np
import torch
from torch import Tensor

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.summaries import FeatureDay, FeatureSet
from ratchet.model.networks import Network
from ratchet.runtime.context import StageContext
from ratchet.store.artifacts import fetch
from tasks.train.data import Rows, join


def read(ctx: StageContext, network: Network, features: FeatureSet, days: Sequence[date]) -> Rows:
    """The rows of some days, standardised by the network, which is in the host's memory. Each file is verified."""
    encoded = features.of(tuple(days))
    return join((_read_day(ctx, network, day) for day in encoded), sum(day.rows for day in encoded))


def _read_day(ctx: StageContext, network: Network, day: FeatureDay) -> Rows:
    """One day's arrays, verified and loaded; ids are looked up once for all epochs."""

    def tensor(name: str) -> Tensor | None:
        if name not in day.arrays:
            return None
        path = fetch(ctx.store, day.arrays[name], ctx.disk)
        return torch.from_numpy(np.load(path, allow_pickle=False))

    numeric, ids, label, group = tensor("numeric"), tensor("categorical"), tensor("label"), tensor("group")
    if numeric is None or ids is None or label is None:
        raise RatchetError(f"{day.day}: arrays are missing", remedy="run features again with --rebuild")
    return Rows(
        numeric=network.preprocess.standardise(numeric),
        places=network.preprocess.places(ids),
        label=label,
        weight=tensor("weight"),
        sizes=None if group is None else group.diff(),
    )
