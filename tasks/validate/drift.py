"""Whether the features of the data date are distributed as in a reference.

The limit of a feature is the largest of three: the limit of the pipeline file, what so few rows give by chance, and
what the days of the window give among themselves. So a day of few rows does not fail by chance, nor does a feature that
differs from day to day by nature. A feature with one value a day, such as the month, is compared by days, not by rows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from ratchet.contracts.checks import Drift
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.summaries import Check
from ratchet.pages.words import count
from tasks.validate.constant import constant_by_day, new_constant
from tasks.validate.profile import ColumnProfile, Profile, values_of
from tasks.validate.stability import by_chance, is_comparable, psi, without

_KEY = "validate.drift"
_FEW = 2
_SHARE = 0.9
_MARGIN = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What the data date is compared with. name: for people. days: the profiles of the window's other good days."""

    profile: Profile
    name: str
    days: Mapping[date, Profile]
    summed: Profile


def check_drift(
    day: date, today: Profile, reference: Reference, rule: Drift, spec: PipelineSpec
) -> tuple[list[Check], dict[str, float]]:
    """Check each feature of the source; returns the checks and the indices. What was not compared is a warning."""
    features = [name for name, column in spec.columns.items() if column.is_feature and not column.derived]
    features += [values_of(name) for name in features if spec.columns[name].is_list]
    if features and not reference.profile.rows:
        observed = f"not compared: {reference.name} have no rows"
        allowed = "a comparison of each feature"
        return [_result(day, None, observed, allowed, passed=False, severity="warning")], {}
    checks: list[Check] = []
    indices: dict[str, float] = {}
    for column in features:
        check, index = _check(day, column, today.columns[column], reference, rule, tests=len(features))
        checks.append(check)
        if index is not None:
            indices[column] = round(index, 6)
    return checks, indices


def _check(
    day: date, column: str, ours: ColumnProfile, reference: Reference, rule: Drift, *, tests: int
) -> tuple[Check, float | None]:
    """The check of one feature, and its index if there is one. tests: the number of features."""
    theirs = reference.profile.columns.get(column, ColumnProfile())
    earlier = [found.columns[column] for found in reference.days.values() if column in found.columns]
    if constant_by_day(ours, earlier, theirs):
        value, is_new = new_constant(ours, earlier)
        observed = f"one value on each day, {value} on {day}" + (", which no earlier day of the window has" * is_new)
        allowed = "one value a day, as on the earlier days of the window"
        return _result(day, column, observed, allowed, passed=not is_new, severity="warning"), None
    if reason := is_comparable(ours, theirs):
        allowed = f"a comparison with {reference.name}"
        return _result(day, column, f"not compared: {reason}", allowed, passed=False, severity="warning"), None
    index, bins = psi(ours, theirs, rule.psi)
    limit, because = rule.psi, ""
    if index > limit and (chance := by_chance(bins, ours.rows, theirs.rows, tests)) > limit:
        limit, because = chance, f", which {count(ours.rows, 'row')} can have by chance"
    if index > limit and (usual := _usual(column, earlier, reference.summed, rule.psi)) > limit:
        limit, because = usual, ", which the window's days can have among themselves"
    severity: Literal["error", "warning"] = "error" if rule.on_breach == "fail" else "warning"
    allowed = f"PSI at most {limit:.3g}{because} against {reference.name}"
    observed = f"PSI {index:.3f}" + (": no row has a value" * (not ours.present))
    return _result(day, column, observed, allowed, passed=index <= limit, severity=severity), index


def _usual(column: str, earlier: Sequence[ColumnProfile], summed: Profile, limit: float) -> float:
    """The index that a day of the window has, against the others, in nine of ten cases, doubled."""
    if len(earlier) < _FEW or column not in summed.columns:
        return 0.0
    whole = summed.columns[column]
    found = sorted(psi(one, without(whole, one), limit)[0] for one in earlier if one.rows < whole.rows)
    return _MARGIN * found[math.ceil(_SHARE * len(found)) - 1] if found else 0.0


def _result(
    day: date,
    column: str | None,
    observed: str,
    allowed: str,
    *,
    passed: bool,
    severity: Literal["error", "warning"],
) -> Check:
    return Check(
        day=day,
        rule="drift",
        column=column,
        passed=passed,
        severity=severity,
        observed=observed,
        allowed=allowed,
        key=_KEY,
    )
