"""Checks the rules of derived columns where their values exist: on the rows that derive made."""

from collections.abc import Iterator
from datetime import date

import numpy as np
import pandas as pd

from ratchet.contracts.columns import Column
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.quantities import percent
from ratchet.contracts.summaries import Check
from ratchet.pages.words import count

_LISTED = 5


def derived_rules(spec: PipelineSpec) -> dict[str, dict[str, object]]:
    """The rules that the checks of a day depend on, by column."""
    keys = {"allowed", "min", "max", "max_null"}
    return {
        name: column.model_dump(mode="json", include=keys) for name, column in spec.columns.items() if column.derived
    }


def check_derived(day: date, derived: pd.DataFrame, spec: PipelineSpec) -> tuple[Check, ...]:
    """The failed checks of a day's derived columns. One without any value is a warning, unless max_null allows it."""
    columns = {name: column for name, column in spec.columns.items() if column.derived}
    return tuple(check for name, column in columns.items() for check in _check(day, name, column, derived[name]))


def _check(day: date, name: str, column: Column, values: pd.Series) -> Iterator[Check]:
    present = values[values.notna()]
    missing = len(values) - len(present)
    if column.max_null is not None and missing > column.max_null * len(values):
        observed = f"{percent(missing / len(values))} missing ({count(missing, 'row')})"
        yield _failed(day, name, "null", "max_null", observed, f"at most {percent(column.max_null)}")
    elif len(values) and not len(present):
        failed = _failed(day, name, "empty", "max_null", "no value on any row", "a value in some row, or a max_null")
        yield failed.model_copy(update={"severity": "warning"})
    if len(present):
        yield from _values(day, name, column, present)


def _values(day: date, name: str, column: Column, present: pd.Series) -> Iterator[Check]:
    if column.min is not None and (present < column.min).any():
        yield _failed(day, name, "min", "min", f"least {present.min():,.6g}", f"at least {column.min:,.6g}")
    if column.max is not None and (present > column.max).any():
        yield _failed(day, name, "max", "max", f"greatest {present.max():,.6g}", f"at most {column.max:,.6g}")
    if column.allowed is not None:
        strange = present[~present.isin(list(column.allowed))]
        if len(strange):
            some = ", ".join(f"{value!s:.40}" for value in strange.drop_duplicates()[:_LISTED])
            observed, allowed = f"{some} ({count(len(strange), 'row')})", ", ".join(map(str, column.allowed[:20]))
            yield _failed(day, name, "in", "in", observed, allowed)
    if column.type == "float64" and column.role == "numeric":
        infinite = int(np.isinf(present.to_numpy(np.float64)).sum())
        if infinite:
            yield _failed(day, name, "finite", "type", f"{count(infinite, 'row')} infinite", "finite numbers")


def _failed(day: date, name: str, rule: str, key: str, observed: str, allowed: str) -> Check:
    return Check(
        day=day,
        rule=rule,
        column=name,
        passed=False,
        observed=observed,
        allowed=allowed,
        key=f"columns.{name}.{key}",
    )
