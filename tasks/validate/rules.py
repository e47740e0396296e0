"""Checks the rules of single columns on a day's profile."""

from collections.abc import Callable, Iterator, Mapping
from datetime import date

from ratchet.contracts.columns import Column
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.quantities import percent
from ratchet.contracts.summaries import Check
from ratchet.pages.words import count
from tasks.validate.profile import ColumnProfile, Profile

_LISTED = 5
_CLASSES = 2
_COMPUTED = frozenset({"numeric", "label", "weight", "list_weight"})
"""Roles whose values are computed with."""


def check_columns(
    day: date, profile: Profile, spec: PipelineSpec, *, is_data_date: bool, has_labels: bool = True
) -> list[Check]:
    """Check every rule of every column on one day. Only the data date needs different labels.

    has_labels: false if labels of the day may still arrive; those that are there are checked, and none is missing.
    """
    checks: list[Check] = []
    for name, column in spec.columns.items():
        if column.derived:
            continue
        found = profile.columns[name]
        if has_labels or column.role != "label":
            checks += _null(day, name, column, found)
        for rule in (_range, _in, _finite, _shape):
            checks += rule(day, name, column, found)
        if column.role == "label" and (has_labels or found.present):
            checks += _label(day, name, spec, found, is_data_date=is_data_date and has_labels)
        if column.role in {"weight", "list_weight"}:
            passed = found.low is None or float(found.low) >= 0
            checks.append(_check(day, "weight", name, "role", passed, f"least {show(found.low)}", "0 or more"))
        if column.role == "group" and spec.train.objective == "ranking":
            checks.append(
                _check(
                    day, "null", name, "role", found.missing == 0, count(found.missing, "row"), "0 rows without a group"
                )
            )
    return [_as_written(check, spec) for check in checks]


def _as_written(check: Check, spec: PipelineSpec) -> Check:
    """A check with the severity that its column has for it."""
    _, name, key = check.key.split(".")
    return check.model_copy(update={"severity": "warning"}) if key in spec.columns[name].warns else check


def check_missing(profiles: Mapping[date, Profile], data_date: date, spec: PipelineSpec) -> list[Check]:
    """A warning for each feature of the source without a value on a day, where no max_null says how many may lack."""
    checks = []
    for name, column in spec.columns.items():
        if column.derived or not column.is_feature or column.max_null is not None:
            continue
        empty = [day for day, found in profiles.items() if found.rows and not found.columns[name].present]
        if empty:
            some = ", ".join(map(str, empty[:_LISTED])) + (", ..." if len(empty) > _LISTED else "")
            where = "every day of the window" if len(empty) == len(profiles) else some
            allowed = "a value in some row of each day, or a max_null"
            check = _check(
                data_date, "empty", name, "max_null", passed=False, observed=f"no value on {where}", allowed=allowed
            )
            checks.append(check.model_copy(update={"severity": "warning"}))
    return checks


def _check(day: date, rule: str, name: str, key: str, passed: bool, observed: str, allowed: str) -> Check:  # noqa: FBT001 - all but the last two of one kind of thing
    return Check(
        day=day,
        rule=rule,
        column=name,
        passed=passed,
        observed=observed,
        allowed=allowed,
        key=f"columns.{name}.{key}",
    )


def _null(day: date, name: str, column: Column, found: ColumnProfile) -> Iterator[Check]:
    if column.max_null is not None:
        passed = found.missing_share <= column.max_null
        observed = f"{percent(found.missing_share)} missing ({count(found.missing, 'row')})"
        yield _check(day, "null", name, "max_null", passed, observed, f"at most {percent(column.max_null)}")


def _range(day: date, name: str, column: Column, found: ColumnProfile) -> Iterator[Check]:
    least, greatest = found.low, found.high
    if column.min is not None:
        passed = least is None or float(least) >= column.min
        yield _check(day, "min", name, "min", passed, f"least {show(least)}", f"at least {show(column.min)}")
    if column.max is not None:
        passed = greatest is None or float(greatest) <= column.max
        yield _check(day, "max", name, "max", passed, f"greatest {show(greatest)}", f"at most {show(column.max)}")


def _in(day: date, name: str, column: Column, found: ColumnProfile) -> Iterator[Check]:
    if column.allowed is None:
        return
    strange, rows = found.forbidden, found.forbidden_rows
    some = ", ".join(f"{value[:40]!r}" for value in list(strange)[:_LISTED])
    more = f" and {len(strange) - _LISTED} more values" if len(strange) > _LISTED else ""
    observed = f"{some}{more} ({count(rows, 'row')})" if rows else "nothing else"
    listed = ", ".join(map(str, column.allowed[:20])) + (", ..." if len(column.allowed) > 20 else "")  # noqa: PLR2004 - as many as fit a line
    yield _check(day, "in", name, "in", not rows, observed, listed)


def _finite(day: date, name: str, column: Column, found: ColumnProfile) -> Iterator[Check]:
    if column.type in {"float64", "list<float64>"} and column.role in _COMPUTED:
        passed = found.infinite == 0
        yield _check(day, "finite", name, "type", passed, f"{count(found.infinite, 'row')} infinite", "finite numbers")


def _shape(day: date, name: str, column: Column, found: ColumnProfile) -> Iterator[Check]:
    """A vector has its dimension, and a list as many weights as values."""
    observed = count(found.misshapen, "row")
    if column.dimension:
        allowed = f"vectors of {column.dimension} numbers"
        yield _check(day, "dimension", name, "dimension", not found.misshapen, f"{observed} of another length", allowed)
    if column.weights:
        allowed = "a weight for each value"
        yield _check(day, "weights", name, "weights", not found.misshapen, f"{observed} with another number", allowed)


def _label(day: date, name: str, spec: PipelineSpec, found: ColumnProfile, *, is_data_date: bool) -> Iterator[Check]:
    """Check that there are labels, that they fit the objective, and that they differ between rows."""
    objective = spec.train.objective
    yield _check(
        day, "label", name, "role", found.present > 0, f"{count(found.present, 'row')} with a label", "at least one row"
    )
    if not found.present:
        return
    valid, allowed = _LABELS[objective](found)
    observed = f"{show(found.low)} to {show(found.high)}" if found.low is not None else ", ".join(found.values)
    yield _check(day, "label", name, "role", valid, observed, f"{allowed} ({objective})")
    if not is_data_date:
        return
    varied = found.low != found.high or len(found.values) >= _CLASSES
    yield _check(
        day,
        "label",
        name,
        "role",
        varied,
        "different labels" if varied else f"{observed} on every row",
        "two labels or more",
    )


def _within(least: float, greatest: float | None) -> Callable[[ColumnProfile], bool]:
    def holds(found: ColumnProfile) -> bool:
        if found.low is None or found.high is None:  # a bool column has values only
            return True
        return float(found.low) >= least and (greatest is None or float(found.high) <= greatest)

    return holds


_LABELS: dict[str, Callable[[ColumnProfile], tuple[bool, str]]] = {
    "binary": lambda found: (_within(0, 1)(found), "0 or 1"),
    "ranking": lambda found: (_within(0, None)(found), "0 or more"),
    "multiclass": lambda found: (_within(0, None)(found), "classes from 0"),
    "regression": lambda found: (found.infinite == 0, "finite numbers"),
}


def show(value: float | str | None) -> str:
    """A number or an ISO time as text for people."""
    if value is None:
        return "none"
    return f"{value:,.6g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value
