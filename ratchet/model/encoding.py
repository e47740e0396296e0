"""Rows as arrays, without any fitted state: numbers become float64, categories become stable ids.

A day is encoded once, and a served model meets the very ids that it was trained on, however a frame holds a value.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ratchet.contracts.columns import ColumnType
from ratchet.contracts.errors import ConfigurationError, DataRejected
from ratchet.model.description import ListColumn, VectorColumn
from ratchet.model.hashing import MISSING, Ids, integer_ids, text_ids
from ratchet.model.list_encoding import encode_list, encode_vector

Floats = NDArray[np.float64]

LARGEST = float(np.finfo(np.float32).max)
"""Numbers beyond this count as missing: their squares have no place in a float64."""


def encode(
    df: pd.DataFrame,
    *,
    numeric: Sequence[str],
    categorical: Mapping[str, ColumnType],
    vectors: Sequence[VectorColumn] = (),
    lists: Sequence[ListColumn] = (),
) -> tuple[Floats, Ids]:
    """Numbers float64 [rows, numbers], and stable ids int64 [rows, ids].

    Numbers: those of the numeric columns, NaN where missing, infinite or beyond LARGEST; then those of the vectors,
    then the weights of the lists that have some. Ids: those of the categorical columns (by name, with their declared
    types), 0 where missing; then those of the lists, see `list_encoding.encode_list`.
    Raises ConfigurationError for a column that is absent, DataRejected for one that holds something else than declared.
    """
    further = [one.name for one in vectors] + [name for one in lists for name in (one.name, one.weights) if name]
    absent = [name for name in (*numeric, *categorical, *further) if name not in df.columns]
    if absent:
        raise ConfigurationError(
            f"rows without the column{'s' if len(absent) > 1 else ''} {', '.join(absent)}",
            remedy=f"give every column that the model reads; these rows have {', '.join(map(str, df.columns))}",
        )
    numbers = np.empty((len(df), len(numeric)), np.float64)
    for place, name in enumerate(numeric):
        numbers[:, place] = plain_numbers(df[name])
    ids = np.empty((len(df), len(categorical)), np.int64)
    for place, (name, kind) in enumerate(categorical.items()):
        ids[:, place] = category_ids(df[name], kind)
    of_vectors = [encode_vector(df[one.name], one) for one in vectors]
    of_lists = [encode_list(df[one.name], one, df[one.weights] if one.weights else None, category_ids) for one in lists]
    weights = [shares for one, (_, shares) in zip(lists, of_lists, strict=True) if one.weights]
    if not of_vectors and not of_lists:
        return numbers, ids
    return (
        np.concatenate([numbers, *of_vectors, *weights], axis=1),
        np.concatenate([ids, *(found for found, _ in of_lists)], axis=1),
    )


def category_ids(values: pd.Series, kind: ColumnType) -> Ids:
    """The stable id of each value, MISSING where there is none. Raises DataRejected for another type of value."""
    if (
        kind != "string"
        and isinstance(values.dtype, np.dtype)
        and values.dtype.kind in ("b" if kind == "bool" else "iu")
    ):
        return integer_ids(values.to_numpy().astype(np.int64))
    codes, unique = pd.factorize(values)
    present = {"string": _texts, "int64": _integers, "bool": _booleans}[kind](values, list(unique))
    return np.append(present, MISSING)[codes]  # factorize gives -1, the last one, to what is missing


def plain_numbers(values: pd.Series) -> Floats:
    """NaN where a number is missing, infinite or beyond LARGEST. Raises DataRejected for anything but numbers."""
    try:
        wide = values.to_numpy(np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise _other(values, "numbers", error) from error
    if not pd.api.types.is_numeric_dtype(values.dtype) and any(isinstance(value, str) for value in values):
        raise _other(values, "numbers")
    return np.where(np.abs(wide) <= LARGEST, wide, np.nan)


def _texts(values: pd.Series, unique: list[Any]) -> Ids:
    if not all(isinstance(text, str) for text in unique):
        raise _other(values, "strings")
    return text_ids(unique)


def _integers(values: pd.Series, unique: list[Any]) -> Ids:
    """Whole floats are let in: integers become such where they meet a missing value on their way through pandas."""
    try:
        whole = np.array([int(value) for value in unique], np.int64)
    except (TypeError, ValueError, OverflowError) as error:
        raise _other(values, "integers", error) from error
    if any(isinstance(value, str | bool | np.bool_) or value != int(value) for value in unique):
        raise _other(values, "integers")
    return integer_ids(whole)


def _booleans(values: pd.Series, unique: list[Any]) -> Ids:
    if not all(isinstance(value, bool | np.bool_) for value in unique):
        raise _other(values, "booleans")
    return integer_ids(np.array(unique, bool).astype(np.int64))


def _other(values: pd.Series, wanted: str, error: Exception | None = None) -> DataRejected:
    reason = f": {error}" if error else ""
    return DataRejected(
        f"column {values.name}: holds {values.dtype} where {wanted} are declared{reason}",
        remedy=f"convert {values.name} before, or declare its type in pipeline.yaml as it is",
    )
