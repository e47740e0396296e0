"""Lists and vectors of raw rows as arrays of fixed width, whatever holds them in a frame: lists, tuples or arrays."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ratchet.contracts.columns import ColumnType
from ratchet.contracts.errors import DataRejected
from ratchet.model.description import ListColumn, VectorColumn
from ratchet.model.hashing import MISSING, PADDING, Ids

Floats = NDArray[np.float64]
Cells = NDArray[np.object_]

_ABSENT = -1
"""The length of a missing list."""
_NUMBERS = (int, float, np.integer, np.floating, Decimal)
_HEAVIEST = 1e30
"""The weights of the longest list have a sum in float32, also times their vectors."""
_LARGEST = float(np.finfo(np.float32).max)


def encode_vector(values: pd.Series, column: VectorColumn) -> Floats:
    """[rows, dimension], rounded to float32; NaN where the vector is missing, or one of its numbers is not finite.

    Raises DataRejected for a vector of another length, and for anything but numbers.
    """
    cells, lengths = _cells(values)
    wrong = (lengths != column.dimension) & (lengths != _ABSENT)
    if wrong.any():
        raise DataRejected(
            f"column {column.name}: {int(wrong.sum())} rows have a vector of another length, such as"
            f" {int(lengths[wrong][0])}; declared: {column.dimension}",
            remedy=f"correct the source, or columns.{column.name}.dimension",
        )
    found = np.full((len(cells), column.dimension), np.nan)
    there = lengths != _ABSENT
    if there.any():
        with np.errstate(over="ignore"):
            rounded = _joined(values, cells[there], "numbers").astype(np.float32).reshape(-1, column.dimension)
        finite = (np.abs(rounded) <= _LARGEST).all(axis=1, keepdims=True)
        found[there] = np.where(finite, rounded, np.nan)
    return found


def encode_list(
    values: pd.Series, column: ListColumn, weights: pd.Series | None, ids_of: Callable[[pd.Series, ColumnType], Ids]
) -> tuple[Ids, Floats]:
    """(ids int64, weights float64), both [rows, length]: those of the values that are read, then PADDING of weight 0.

    A missing list has the one id MISSING of weight 1. weights: of the values, or None; then all have 1. Raises
    DataRejected for a missing value in a list, and for weights that are not as many, or not from 0 to 1e30.
    """
    cells, lengths = _cells(values)
    if weights is not None:
        _refuse_lengths(values, weights, lengths)
    kept = np.minimum(lengths, column.length)
    there = np.arange(column.length) < kept[:, None]
    ids = np.full((len(cells), column.length), PADDING, np.int64)
    shares = there.astype(np.float64)
    full = lengths > 0
    if full.any():
        ids[there] = _value_ids(values, [_end(cell, column) for cell in cells[full]], column, ids_of)
        if weights is not None:
            cut = [_end(cell, column) for cell in _cells(weights)[0][full]]
            shares[there] = _weights(weights, _joined(weights, cut, "numbers"))
    ids[lengths == _ABSENT, 0], shares[lengths == _ABSENT, 0] = MISSING, 1.0
    return ids, shares


def _end(cell: Any, column: ListColumn) -> Any:
    """The values of a list that are read."""
    return cell[: column.length] if column.keep == "first" else cell[-column.length :]


def _value_ids(
    values: pd.Series, cells: list[Any], column: ListColumn, ids_of: Callable[[pd.Series, ColumnType], Ids]
) -> Ids:
    kind: ColumnType = "string" if column.type == "string" else "int64"
    whole = kind == "int64" and all(isinstance(cell, np.ndarray) and cell.dtype.kind in "iu" for cell in cells)
    flat = np.concatenate(cells) if whole else _objects(cells)
    if not whole and (any(isinstance(value, list | tuple | np.ndarray) for value in flat) or pd.isna(flat).any()):
        raise _other(values, f"a list of {column.type} without missing values")
    try:
        found = ids_of(pd.Series(flat, name=values.name), kind)
    except TypeError as error:  # a value that cannot be hashed
        raise _other(values, f"a list of {column.type}", error) from error
    found[found == PADDING] -= 1
    return found


def _objects(cells: list[Any]) -> Cells:
    """The values of lists, one after the other, each as it is: also a list in a list is one value."""
    values = [value for cell in cells for value in cell]
    found = np.empty(len(values), object)
    found[:] = values
    return found


def _weights(values: pd.Series, flat: Floats) -> Floats:
    with np.errstate(over="ignore"):
        rounded = flat.astype(np.float32)
    if not ((rounded >= 0) & (rounded <= _HEAVIEST)).all():
        raise _other(values, f"weights from 0 to {_HEAVIEST:g}")
    return rounded.astype(np.float64)


def _refuse_lengths(values: pd.Series, weights: pd.Series, lengths: NDArray[np.int64]) -> None:
    """A missing list has no weights, and one without values needs none."""
    found = _cells(weights)[1]
    wrong = np.maximum(found, 0) != np.maximum(lengths, 0)
    if wrong.any():
        raise DataRejected(
            f"column {weights.name}: {int(wrong.sum())} rows have another number of weights than {values.name} has"
            f" values, such as {max(int(found[wrong][0]), 0)} for {max(int(lengths[wrong][0]), 0)}",
            remedy="deliver a weight for each value of the list",
        )


def _cells(values: pd.Series) -> tuple[Cells, NDArray[np.int64]]:
    """(the lists, their lengths), _ABSENT where one is missing. Raises DataRejected for anything else."""
    cells = values.to_numpy(object)
    lengths = np.fromiter((_length(cell) for cell in cells), np.int64, len(cells))
    if (lengths < _ABSENT).any():
        raise _other(values, "lists")
    return cells, lengths


def _length(cell: Any) -> int:
    if isinstance(cell, np.ndarray):
        return len(cell) if cell.ndim == 1 else _ABSENT - 1
    if isinstance(cell, list | tuple):
        return len(cell)
    return _ABSENT if cell is None or cell is pd.NA or (isinstance(cell, float) and np.isnan(cell)) else _ABSENT - 1


def _joined(values: pd.Series, cells: Any, wanted: str) -> Floats:
    """The numbers of lists, one after the other; NaN where one is missing."""
    try:
        return np.concatenate([_floats(cell) for cell in cells])
    except (TypeError, OverflowError) as error:
        raise _other(values, wanted, error) from error


def _floats(cell: Any) -> Floats:
    """The numbers of a list. Raises TypeError for anything else, OverflowError for a number beyond float64."""
    if isinstance(cell, np.ndarray) and cell.dtype.kind in "iuf":
        return cell.astype(np.float64)
    numbers = [np.nan if one is None or one is pd.NA else one for one in cell]
    strange = next((one for one in numbers if isinstance(one, bool) or not isinstance(one, _NUMBERS)), None)
    if strange is not None:
        raise TypeError(f"{strange!r:.40} is no number")
    return np.array(numbers, np.float64)


def _other(values: pd.Series, wanted: str, error: Exception | None = None) -> DataRejected:
    reason = f": {error}" if error else ""
    return DataRejected(
        f"column {values.name}: holds something else where {wanted} is declared{reason}",
        remedy=f"convert {values.name} before, or declare its type in pipeline.yaml as it is",
    )
