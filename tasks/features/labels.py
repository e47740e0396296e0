"""The label, the weight and the group of each row of a day, and what they may be."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ratchet.contracts.errors import DataRejected
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.model.encoding import LARGEST
from tasks.features.refusals import refuse_blurred

Array = NDArray[np.generic]


def labels(values: pd.Series, spec: PipelineSpec, where: str) -> Array:
    """As summaries.FeatureDay has them. Raises DataRejected for one that the objective cannot have."""
    wide = values.to_numpy(np.float64)
    held = np.abs(wide) <= LARGEST
    objective = spec.train.objective
    if objective == "multiclass":
        classes = len(spec.columns[spec.label].allowed or ())
        bad, allowed = ~np.isin(wide, np.arange(classes)), f"whole numbers from 0 to {classes - 1}"
    elif objective == "binary":
        bad, allowed = ~np.isin(wide, (0, 1)), "0 and 1"
    elif objective == "ranking":
        bad, allowed = ~(held & (wide >= 0)), f"relevance from 0 up to {LARGEST:.1e}"
    else:
        bad, allowed = ~held, f"numbers up to {LARGEST:.1e}, above or below 0"
        refuse_blurred(values, where)
    _refuse(values, bad, f"a {objective} label", allowed, where)
    return wide.astype({"multiclass": np.int64, "regression": np.float64}.get(objective, np.float32))


def weights(values: pd.Series, where: str) -> Array:
    """float32. Raises DataRejected for one that is missing, or below 0."""
    wide = values.to_numpy(np.float64, na_value=np.nan)
    held = np.abs(wide) <= LARGEST
    _refuse(values, ~(held & (wide >= 0)), "a weight", f"numbers from 0 up to {LARGEST:.1e}", where)
    return wide.astype(np.float32)


def _refuse(values: pd.Series, bad: NDArray[np.bool_], role: str, allowed: str, where: str) -> None:
    if bad.any():
        raise DataRejected(
            f"{where}: column {values.name}: {int(bad.sum())} rows have values that {role} cannot have,"
            f" such as {values[bad].iloc[0]}; allowed: {allowed}",
            remedy=f"correct the source, or set a rule in columns.{values.name}, so that validate excludes such days",
        )


def group_codes(values: "pa.ChunkedArray", name: str, where: str, *, alone: bool) -> NDArray[np.int64]:
    """The rank of each row's group in the day. alone: a row without a group is its own group; else it is refused."""
    listed = values.dictionary_encode().combine_chunks()
    if isinstance(listed, pa.ChunkedArray):  # of no rows
        return np.zeros(0, np.int64)
    rank = np.empty(len(listed.dictionary), np.int64)
    rank[pc.sort_indices(listed.dictionary).to_numpy()] = np.arange(len(rank))
    missing = listed.is_null().to_numpy(zero_copy_only=False)
    if missing.any() and not alone:
        raise DataRejected(
            f"{where}: column {name}: {int(missing.sum())} rows have no group, so they cannot be ranked",
            remedy=f"correct the source, or set columns.{name}.max_null: 0% so that validate excludes such days",
        )
    codes: NDArray[np.int64] = np.append(rank, 0)[listed.indices.fill_null(-1).to_numpy()]
    codes[missing] = len(rank) + np.arange(missing.sum())
    return codes
