"""Whether the features of the data date are distributed as in a reference.

The limit of a feature is the largest of three: the limit of the pipeline file, what so few rows give by chance, and
what the days of the window give among themselves. So a day of few rows does not fail by chance, nor does a feature that
differs from day to day by nature. A feature with one value a day, such as the month, is compared by days, not by rows.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date

from ratchet.contracts.checks import Breach, Drift
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.summaries import Check
from ratchet.pages.words import count
from tasks.validate.constant import constant_by_day, new_constant
from tasks.validate.outcome import outcome
from tasks.validate.profile import ColumnProfile, Profile, values_of
from tasks.validate.stability import by_chance, difference, is_comparable, without
from tasks.validate.sums import FirstDays

_KEY = "validate.drift"
_FEW = 2
_SHARE = 0.9
_MARGIN = 2.0
_WEEK = 7
_THREADS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What the data date is compared with. name: for people. days: the window's other good days, as profiles or briefs.

    summed: their sum. week: that of the newest seven. first: see sums.FirstDays. whole: reads a day's profile.
    """

    profile: Profile
    name: str
    days: Mapping[date, Profile]
    summed: Profile
    week: Profile
    first: FirstDays
    whole: Callable[[date], Profile]


def last_week(days: Iterable[date]) -> list[date]:
    """The newest seven days."""
    return sorted(days)[-_WEEK:]


@dataclass(frozen=True, slots=True)
class Drifts:
    """What was measured, by column: the index and the divergence against the reference, the index of last week."""

    psi: dict[str, float] = field(default_factory=dict)
    js: dict[str, float] = field(default_factory=dict)
    psi_last_week: dict[str, float] = field(default_factory=dict)


def check_drift(
    day: date, today: Profile, reference: Reference, rule: Drift, spec: PipelineSpec
) -> tuple[list[Check], Drifts]:
    """Check each feature of the source; returns what was measured too. What was not compared is a warning."""
    features = [name for name, column in spec.columns.items() if column.is_feature and not column.derived]
    features += [values_of(name) for name in features if spec.columns[name].is_list]
    if features and not reference.profile.rows:
        observed = f"not compared: {reference.name} have no rows"
        allowed = "a comparison of each feature"
        return [_result(day, None, observed, allowed, passed=False, breach="warn")], Drifts()
    checks: list[Check] = []
    found, week = Drifts(), reference.week
    for column in features:
        ours, before = today.columns[column], week.columns.get(column, ColumnProfile())
        checks += _check(day, column, ours, reference, rule, found, tests=len(features))
        if not is_comparable(ours, before):
            found.psi_last_week[column] = round(difference(ours, before, rule.psi).psi, 6)
    return checks, found


def _check(
    day: date, column: str, ours: ColumnProfile, reference: Reference, rule: Drift, measured: Drifts, *, tests: int
) -> Iterator[Check]:
    """The checks of one feature, which are noted in what was measured. tests: the number of features."""
    theirs = reference.profile.columns.get(column, ColumnProfile())
    earlier = [found.columns[column] for found in reference.days.values() if column in found.columns]
    if constant_by_day(ours, earlier, theirs):
        value, is_new = new_constant(ours, earlier)
        observed = f"one value on each day, {value} on {day}" + (", which no earlier day of the window has" * is_new)
        allowed = "one value a day, as on the earlier days of the window"
        yield _result(day, column, observed, allowed, passed=not is_new, breach="warn")
        return
    if reason := is_comparable(ours, theirs):
        allowed = f"a comparison with {reference.name}"
        yield _result(day, column, f"not compared: {reason}", allowed, passed=False, breach="warn")
        return
    found = difference(ours, theirs, rule.psi)
    measured.psi[column], measured.js[column] = round(found.psi, 6), round(found.js, 6)
    limit, because = rule.psi, ""
    if found.psi > limit and (chance := by_chance(found.bins, ours.rows, theirs.rows, tests)) > limit:
        limit, because = chance, f", which {count(ours.rows, 'row')} can have by chance"
    if found.psi > limit and (usual := _usual(column, reference, rule.psi)) > limit:
        limit, because = usual, ", which the window's days can have among themselves"
    allowed = f"PSI at most {limit:.3g}{because} against {reference.name}"
    observed = f"PSI {found.psi:.3f}" + (": no row has a value" * (not ours.present))
    yield _result(day, column, observed, allowed, passed=found.psi <= limit, breach=rule.on_breach)
    if rule.js is not None:
        allowed = f"a Jensen-Shannon divergence of at most {rule.js:.3g} against {reference.name}"
        passed = found.js <= rule.js
        yield _result(day, column, f"{found.js:.3f}", allowed, passed=passed, breach=rule.on_breach)


def _usual(column: str, reference: Reference, limit: float) -> float:
    """The index that a day of the window has, against the others, in nine of ten cases, doubled."""
    days = [day for day, found in reference.days.items() if column in found.columns]
    if len(days) < _FEW or column not in reference.summed.columns:
        return 0.0
    with ThreadPoolExecutor(_THREADS) as pool:  # each is a question to the store, once
        earlier = [found.columns[column] for found in pool.map(reference.whole, days)]
    whole = reference.summed.columns[column]
    found = sorted(difference(one, without(whole, one), limit).psi for one in earlier if one.rows < whole.rows)
    return _MARGIN * found[math.ceil(_SHARE * len(found)) - 1] if found else 0.0


def _result(day: date, column: str | None, observed: str, allowed: str, *, passed: bool, breach: Breach) -> Check:
    return outcome(day, "drift", column, passed=passed, observed=observed, allowed=allowed, key=_KEY, breach=breach)
