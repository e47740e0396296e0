"""Rows as arrays, independent of anything fitted: numbers as float32, categories as stable ids.

A day is encoded once, and a served model meets the very ids that it was trained on.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tasks.contracts.columns import ColumnType
from tasks.contracts.errors import DataRejected
from tasks.scoring.hashing import MISSING, integer_ids, text_ids


def encode(
    df: pd.DataFrame, *, numeric: Sequence[str], categorical: Mapping[str, ColumnType]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """(float32 [rows, numeric], NaN where missing; int64 [rows, categorical], stable ids, 0 where missing).

    Raises DataRejected that names the column for values of another type.
    """
    numbers = np.empty((len(df), len(numeric)), dtype=np.float32)
    for place, name in enumerate(numeric):
        numbers[:, place] = _numbers(df[name], name)
    ids = np.empty((len(df), len(categorical)), dtype=np.int64)
    for place, (name, kind) in enumerate(categorical.items()):
        ids[:, place] = _ids(df[name], name, kind)
    return numbers, ids


def _numbers(values: pd.Series, name: str) -> NDArray[np.float32]:
    try:
        return pd.to_numeric(values).to_numpy(dtype=np.float32, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise DataRejected(f"{name}: {error}", remedy=f"see that {name} holds numbers alone") from error


def _ids(values: pd.Series, name: str, kind: ColumnType) -> NDArray[np.int64]:
    """The same value has the same id however the frame holds it: an int64 may come as 3, 3.0 or a nullable 3."""
    codes, found = pd.factorize(values)
    if kind == "string":
        table = text_ids(map(str, found))
    else:
        wide = pd.to_numeric(pd.Series(found, dtype=object))
        whole = wide.astype(np.int64)
        if (whole != wide).any():
            raise DataRejected(
                f"{name}: {wide[whole != wide].iloc[0]!r} is not a {kind}", remedy=f"see that {name} holds {kind} alone"
            )
        table = integer_ids(whole.to_numpy())
    return np.append(table, MISSING)[codes]  # code -1, a missing value, takes the last one
