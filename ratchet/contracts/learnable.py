"""Columns whose rules leave nothing to learn from: one class, no positive label, no weight, no number at all."""

import math
from collections.abc import Iterator, Sequence

from ratchet.contracts.columns import Column, Value
from ratchet.contracts.misfits import Misfit
from ratchet.contracts.pipeline import PipelineSpec

_TWO = "two classes or more"


def learnable(spec: PipelineSpec) -> Iterator[Misfit]:
    """The rule for pipeline files: rows that obey the rules of their columns can be trained on."""
    for name, column in spec.columns.items():
        if getattr(column, "role", "") == "label":
            yield from _label(name, column, spec.train.objective)
        if getattr(column, "role", "") == "weight":
            yield from _weight(name, column)
        yield from _whole(name, column)


def _label(name: str, column: Column, objective: str) -> Iterator[Misfit]:
    low, high, listed = _range(column)
    known = f"a {objective} label"
    if objective == "binary":
        strange = [value for value in listed if value not in (0, 1)]
        if strange:
            yield Misfit(("columns", name, "in"), f"{known} is never {_shown(strange[0])}", "0, 1")
        elif low > 0 or high < 1:
            yield Misfit(("columns", name, _key(column)), "every label would be the same", "0 and 1")
    if objective == "ranking":
        if listed and low < 0:
            yield Misfit(("columns", name, "in"), f"{known} is never {_shown(low)}", "relevance from 0 up")
        elif high <= 0:
            yield Misfit(("columns", name, _key(column)), "no label could be positive", "relevance from 0 up")
    if (objective == "multiclass" and len(listed) == 1) or (objective == "regression" and low == high):
        allowed = _TWO if objective == "multiclass" else "two labels or more"
        yield Misfit(("columns", name, _key(column)), "every label would be the same", allowed)


def _weight(name: str, column: Column) -> Iterator[Misfit]:
    low, high, listed = _range(column)
    if listed and low < 0:
        yield Misfit(("columns", name, "in"), f"a weight is never {_shown(low)}", "numbers from 0 up")
    elif high <= 0:
        yield Misfit(("columns", name, _key(column)), "every weight would be 0", "numbers from 0 up")


def _whole(name: str, column: Column) -> Iterator[Misfit]:
    if column.type != "int64" or column.min is None or column.max is None or column.min > column.max:
        return
    if math.isfinite(column.min) and math.isfinite(column.max) and math.ceil(column.min) > math.floor(column.max):
        message = f"no whole number lies between min {column.min:g} and max {column.max:g}"
        yield Misfit(("columns", name), message)


def _range(column: Column) -> tuple[float, float, Sequence[Value]]:
    """(smallest, largest, listed) of the values that the rules allow."""
    listed = [value for value in column.allowed or () if isinstance(value, int | float)]
    low = max(column.min if column.min is not None else -math.inf, min(listed, default=-math.inf))
    high = min(column.max if column.max is not None else math.inf, max(listed, default=math.inf))
    return low, high, listed


def _key(column: Column) -> str:
    """The key that leaves too few values."""
    return "in" if column.allowed else "max" if column.max is not None else "min"


def _shown(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
