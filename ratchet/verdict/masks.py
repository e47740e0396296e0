"""The rows of each slice, as masks over a frame of held-out rows, with its names."""

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ratchet.contracts.expressions import All, Among, Any, Compare, Expression, Missing, Not, parse
from ratchet.contracts.slices import Slice

MAX_VALUES = 50
"""The most frequent values are judged one by one, all others together: a slice is for what people have names for."""

MISSING, OTHER = "(missing)", "(other)"
Mask = NDArray[np.bool_]
_OPERATORS: Mapping[str, Callable[..., object]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class SliceRows(NamedTuple):
    """A slice: its column and value in words, and its rows [rows]."""

    column: str
    value: str
    mask: Mask


def slice_rows(one: Slice, frame: pd.DataFrame) -> Iterator[SliceRows]:
    """The slices that an entry of evaluate.slices makes of some rows."""
    if one.where:
        yield SliceRows(one.where, "", choose(parse(one.where), frame))
        return
    named = _values(frame[one.column]) if one.bins is None else _bins(frame[one.column], one.bins)
    for value, mask in named:
        yield SliceRows(one.column, value, mask)


def choose(expression: Expression, frame: pd.DataFrame) -> Mask:
    """The rows that an expression chooses."""
    match expression:
        case Not(inner):
            return ~choose(inner, frame)
        case All(parts):
            return np.asarray(np.logical_and.reduce([choose(part, frame) for part in parts]), dtype=bool)
        case Any(parts):
            return np.asarray(np.logical_or.reduce([choose(part, frame) for part in parts]), dtype=bool)
        case Missing(column):
            return frame[column].isna().to_numpy(bool)
        case Among(column, values):
            return _known(frame[column], lambda known: known.isin(values))
        case Compare(column, sign, value):
            return _known(frame[column], lambda known: _OPERATORS[sign](known, value))


def _known(values: pd.Series, compare: Callable[[pd.Series], object]) -> Mask:
    """A comparison of the rows that have a value; all others are not chosen."""
    mask = values.notna().to_numpy(bool, copy=True)
    mask[mask] = np.asarray(compare(values[mask]), dtype=bool)
    return mask


def _values(values: pd.Series) -> Iterator[tuple[str, Mask]]:
    """Each value, the most frequent first."""
    codes, unique = pd.factorize(values)
    names = [_name(value) for value in unique]
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    order = sorted(range(len(names)), key=lambda code: (-counts[code], names[code]))
    for code in order[:MAX_VALUES]:
        yield names[code], codes == code
    if order[MAX_VALUES:]:
        yield OTHER, np.isin(codes, order[MAX_VALUES:])
    if (codes < 0).any():
        yield MISSING, codes < 0


def _bins(values: pd.Series, bins: int | tuple[float, ...]) -> Iterator[tuple[str, Mask]]:
    """Bins of a number, the smallest first. bins: their inner edges, or how many bins of about as many rows each."""
    number = values.to_numpy(np.float64, na_value=np.nan)
    known = ~np.isnan(number)
    if isinstance(bins, int):
        inner = np.quantile(number[known], np.arange(1, bins) / bins) if known.any() else np.zeros(0)
        edges = np.unique(inner)
        edges = edges[edges > number[known].min()] if known.any() else edges
    else:
        edges = np.asarray(bins, np.float64)
    place = np.digitize(number, edges)
    for index in range(len(edges) + 1):
        mask = known & (place == index)
        if mask.any():
            yield _range(edges, index), mask
    if not known.all():
        yield MISSING, ~known


def _range(edges: NDArray[np.float64], index: int) -> str:
    if not len(edges):
        return "any"
    if index == 0:
        return f"below {edges[0]:.4g}"
    return f"{edges[-1]:.4g} up" if index == len(edges) else f"{edges[index - 1]:.4g} to {edges[index]:.4g}"


def _name(value: object) -> str:
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    return str(value)[:100]
