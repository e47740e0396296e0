"""Rows of the data date that break a rule, for the page: a few, with their number and the columns of the rule alone."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl

from ratchet.contracts.columns import LISTS, Column
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.summaries import Check
from tasks.validate.measuring import allowed_values
from tasks.validate.sums import FirstDays
from tasks.validate.times import Bounds

_ROWS = 5
_LETTERS = 60
_ROW = "row of the day's file"


@dataclass(frozen=True, slots=True)
class Examples:
    """The rows of one failed check: the names of their columns, and their values as text."""

    check: Check
    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def example_rows(
    path: Path,
    checks: Iterable[Check],
    spec: PipelineSpec,
    limits: Mapping[str, Bounds],
    seen: FirstDays,
) -> list[Examples]:
    """Rows for each failed check that is about single rows. Where they cannot be searched for, there are none.

    limits: see `times.bounds`. seen: the values of earlier good days, see sums.py.
    """
    found = []
    for check in checks:
        columns = _columns(check, spec)
        wrong = _wrong(check, columns, spec, limits, seen) if columns else None
        if wrong is not None:
            rows = pl.scan_parquet(path).select(columns).with_row_index(_ROW).filter(wrong).head(_ROWS)
            with suppress(pl.exceptions.PolarsError):  # the page of a refused night matters more than its examples
                shown = rows.collect()
                found.append(
                    Examples(check, tuple(shown.columns), tuple(tuple(map(_text, row)) for row in shown.iter_rows()))
                )
    return [one for one in found if one.rows]


def _columns(check: Check, spec: PipelineSpec) -> list[str]:
    """The columns of the rule, where they have one value in a row."""
    keys = [key for key in spec.validate_.unique if check.rule == "unique" and f" the {key.name} of " in check.observed]
    names = list(keys[0].columns) if keys else [check.column] if check.column else []
    return names if all(name in spec.source_columns for name in names) else []


def _wrong(
    check: Check,
    columns: list[str],
    spec: PipelineSpec,
    limits: Mapping[str, Bounds],
    seen: FirstDays,
) -> pl.Expr | None:
    """Which rows break a rule; None where it is about the day as a whole."""
    name, column = columns[0], spec.columns[columns[0]]
    value = pl.col(name)
    if column.type in LISTS:
        return None
    if check.rule == "times" and name in limits:
        first, end = limits[name]
        return (value < first) | (value >= end) if column.type == "timestamp" else value != first.date()
    if check.rule in {"unique", "repeats"}:
        return pl.all_horizontal(pl.col(columns).is_not_null()) & pl.struct(columns).is_duplicated()
    if check.rule == "new categories":
        return value.is_not_null() & ~value.cast(pl.String).is_in(sorted(seen.get(name, ())))
    if check.rule == "label" and spec.train.objective != "binary":
        return None
    rule = _OF_A_COLUMN.get(check.rule)
    is_number = column.type in {"int64", "float64"}
    return rule(value, column) if rule and (is_number or check.rule in _OF_ANY_TYPE) else None


def _missing(value: pl.Expr, column: Column) -> pl.Expr:
    return value.is_null() | value.is_nan() if column.type == "float64" else value.is_null()


def _strange(column: Column, values: pl.Series) -> pl.Series:
    return ~values.is_in(allowed_values(column, values.dtype).implode())


_OF_ANY_TYPE = frozenset({"null", "empty", "in"})
_OF_A_COLUMN: Mapping[str, Callable[[pl.Expr, Column], pl.Expr]] = {
    "null": _missing,
    "empty": _missing,
    "in": lambda value, column: value.is_not_null() & value.map_batches(partial(_strange, column), pl.Boolean),
    "min": lambda value, column: value < column.min,
    "max": lambda value, column: value > column.max,
    "weight": lambda value, _: value < 0,
    "finite": lambda value, _: value.is_infinite(),
    "label": lambda value, _: (value != 0) & (value != 1),
}


def _text(value: object) -> str:
    words = "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
    return words if len(words) <= _LETTERS else f"{words[: _LETTERS - 1]}…"
