"""Made-up rows that fit the columns of a pipeline, as a file of its snapshot."""

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.contracts.columns import LISTS, Column, ColumnType, Value
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.model.encoding import LARGEST
from tasks.ingest.schema import arrow_schema

_GROUPS = (1, 2, 3, 4, 1, 5, 2, 6)
"""The rows of each group."""
ROWS = sum(_GROUPS)
DAY = date(2026, 1, 15)
_LETTERS = "abcdef"
_SOME = 3
"""Values in a list, at most."""
_WIDTH = 100.0
"""Of the range of a number that has no bounds."""
_INT64 = np.iinfo(np.int64)
_NEVER_MISSING = frozenset({"label", "group", "weight"})


def write_rows(path: Path, spec: PipelineSpec) -> None:
    """Write the source's columns for ROWS rows of one day, the same ones each time.

    A value is missing only in a column whose max_null allows some.
    """
    draw = np.random.default_rng(0)
    columns = spec.source_columns
    values = {name: _values(spec, spec.columns[name], draw) for name in columns}
    pq.write_table(pa.table(values, arrow_schema(columns)), path)


def _values(spec: PipelineSpec, column: Column, draw: np.random.Generator) -> list[Any]:
    if column.role == "group":
        return _group(column)
    if column.type in LISTS:
        return _lists(column, spec, draw)
    allowed: tuple[Value, ...] | None = column.allowed
    if column.role == "label" and allowed is None:
        allowed = {"binary": (0, 1), "ranking": (0, 1, 2)}.get(spec.train.objective)
        allowed = tuple(map(bool, allowed)) if allowed and column.type == "bool" else allowed
    if allowed is not None:  # each of them, as far as there are rows
        listed = [_PARSED.get(column.type, _same)(value) for value in allowed]
        found: list[Any] = [listed[place % len(listed)] for place in draw.permutation(ROWS)]
    else:
        found = [_BY_TYPE[column.type](column, draw) for _ in range(ROWS)]
    if column.max_null and column.role not in _NEVER_MISSING:
        found[-1] = None
    return found


def _lists(column: Column, spec: PipelineSpec, draw: np.random.Generator) -> list[Any]:
    """Vectors of their dimension; lists of no value and of several; weights, one for each value."""
    several = next(
        (one for one in spec.columns.values() if one.weights and spec.columns[one.weights] is column), column
    )
    most = min(several.max_length or _SOME, _SOME)
    lengths = [column.dimension or row % (most + 1) for row in range(ROWS)]
    listed = list(column.allowed or ())
    kind = LISTS[column.type]
    found: list[Any] = [
        [listed[draw.integers(len(listed))] if listed else _BY_TYPE[kind](_PLAIN[kind], draw) for _ in range(length)]
        for length in lengths
    ]
    if several.max_null:
        found[-1] = None
    return found


def _group(column: Column) -> list[Any]:
    names: list[Any] = list(column.allowed or ())
    if not names:
        first = int(column.min or 0)
        names = [f"g{place}" if column.type == "string" else first + place for place in range(len(_GROUPS))]
    return [names[place % len(names)] for place, size in enumerate(_GROUPS) for _ in range(size)]


def _bounds(column: Column) -> tuple[float, float]:
    """The range of a number, within what a model can read; a weight is at least 1 where that is allowed."""
    low, high = column.min, column.max
    if column.role == "weight":
        low = max(low or 0.0, 0.0 if high is not None and high <= 1 else 1.0)
        high = min(high if high is not None else LARGEST, low + _WIDTH)
    if low is None:
        low = min(0.0, high - _WIDTH) if high is not None else 0.0
    if high is None:
        high = low + _WIDTH
    return max(low, -LARGEST), min(high, LARGEST)


def _whole(column: Column, draw: np.random.Generator) -> int:
    low, high = _bounds(column)
    first = min(max(int(np.ceil(low)), _INT64.min), _INT64.max)
    last = max(min(int(np.floor(high)), first + int(_WIDTH), _INT64.max), first)
    return int(draw.integers(first, last, endpoint=True))


def _number(column: Column, draw: np.random.Generator) -> float:
    return float(draw.uniform(*_bounds(column)))


def _moment(_: Column, draw: np.random.Generator) -> datetime:
    return datetime.combine(DAY, time()) + timedelta(seconds=int(draw.integers(86_400)))


_PLAIN: dict[ColumnType, Column] = {
    "int64": Column(role="categorical", type="int64"),
    "float64": Column(role="numeric", type="float64"),
    "string": Column(role="categorical", type="string"),
}
"""The columns that values in lists are made for."""


def _same(value: Value) -> Value:
    return value


def _read_moment(value: Value) -> Any:
    """A moment that a file lists as text; that of every row, if it is none."""
    try:
        return datetime.fromisoformat(str(value))
    except ValueError:
        return datetime.combine(DAY, time())


_PARSED: dict[str, Callable[[Value], Any]] = {
    "timestamp": _read_moment,
    "date": lambda value: _read_moment(value).date(),
}
_BY_TYPE: dict[str, Callable[[Column, np.random.Generator], Any]] = {
    "int64": _whole,
    "float64": _number,
    "string": lambda _, draw: _LETTERS[draw.integers(len(_LETTERS))],
    "bool": lambda _, draw: bool(draw.integers(2)),
    "timestamp": _moment,
    "date": lambda _, __: DAY,
}
