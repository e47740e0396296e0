"""Checks the rules of derived columns where their values exist: on the rows that derive made."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Any

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
        name: {**column.model_dump(mode="json", include=keys), **({"warns": True} if column.warns else {})}
        for name, column in spec.columns.items()
        if column.derived
    }


@dataclass(slots=True)
class _Column:
    """What the rules of a derived column are checked against, over the rows so far. strange: values that `in` lacks."""

    rows: int = 0
    missing: int = 0
    least: Any = None
    greatest: Any = None
    strange: list[str] = field(default_factory=list)
    strange_rows: int = 0
    infinite: int = 0


class DerivedTally:
    """The derived columns of a day, added up over its batches. columns: by name."""

    def __init__(self, spec: PipelineSpec) -> None:
        self._rules = {name: column for name, column in spec.columns.items() if column.derived}
        self.columns = {name: _Column() for name in self._rules}

    def add(self, derived: pd.DataFrame) -> None:
        """Add the rows of a batch."""
        for name, rule in self._rules.items():
            self._merge(name, _measured(derived[name], rule))

    def merge(self, other: "DerivedTally") -> None:
        """Add those of another batch."""
        for name, column in other.columns.items():
            self._merge(name, column)

    def _merge(self, name: str, new: _Column) -> None:
        own = self.columns[name]
        own.rows += new.rows
        own.missing += new.missing
        own.least = min((one for one in (own.least, new.least) if one is not None), default=None)
        own.greatest = max((one for one in (own.greatest, new.greatest) if one is not None), default=None)
        own.strange = list(dict.fromkeys([*own.strange, *new.strange]))[:_LISTED]
        own.strange_rows += new.strange_rows
        own.infinite += new.infinite

    def failed(self, day: date) -> tuple[Check, ...]:
        """The failed checks. A column without any value is a warning, unless max_null allows it."""
        return tuple(
            check.model_copy(update={"severity": "warning"}) if check.key.rpartition(".")[2] in rule.warns else check
            for name, rule in self._rules.items()
            for check in _check(day, name, rule, self.columns[name])
        )


def _measured(values: pd.Series, rule: Column) -> _Column:
    present = values[values.notna()]
    found = _Column(rows=len(values), missing=len(values) - len(present))
    if not len(present):
        return found
    if rule.min is not None:
        found.least = present.min()
    if rule.max is not None:
        found.greatest = present.max()
    if rule.allowed is not None:
        strange = present[~present.isin(list(rule.allowed))]
        found.strange = [f"{value!s:.40}" for value in strange.drop_duplicates()[:_LISTED]]
        found.strange_rows = len(strange)
    if rule.type == "float64" and rule.role == "numeric":
        found.infinite = int(np.isinf(present.to_numpy(np.float64)).sum())
    return found


def _check(day: date, name: str, rule: Column, found: _Column) -> Iterator[Check]:
    if rule.max_null is not None and found.missing > rule.max_null * found.rows:
        observed = f"{percent(found.missing / found.rows)} missing ({count(found.missing, 'row')})"
        yield _failed(day, name, "null", "max_null", observed, f"at most {percent(rule.max_null)}")
    elif found.rows and found.missing == found.rows:
        failed = _failed(day, name, "empty", "max_null", "no value on any row", "a value in some row, or a max_null")
        yield failed.model_copy(update={"severity": "warning"})
    if rule.min is not None and found.least is not None and found.least < rule.min:
        yield _failed(day, name, "min", "min", f"least {found.least:,.6g}", f"at least {rule.min:,.6g}")
    if rule.max is not None and found.greatest is not None and found.greatest > rule.max:
        yield _failed(day, name, "max", "max", f"greatest {found.greatest:,.6g}", f"at most {rule.max:,.6g}")
    if rule.allowed is not None and found.strange_rows:
        observed = f"{', '.join(found.strange)} ({count(found.strange_rows, 'row')})"
        yield _failed(day, name, "in", "in", observed, ", ".join(map(str, rule.allowed[:20])))
    if found.infinite:
        yield _failed(day, name, "finite", "type", f"{count(found.infinite, 'row')} infinite", "finite numbers")


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
