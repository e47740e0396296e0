"""Compares the rows of the data date, and those with a label, with earlier days."""

from collections.abc import Mapping
from datetime import date, timedelta
from statistics import median

from ratchet.contracts.checks import Volume
from ratchet.contracts.quantities import percent
from ratchet.contracts.summaries import Check
from tasks.validate.profile import Profile

_KEY = "validate.volume"


def check_volume(day: date, today: Profile, before: Mapping[date, Profile], rule: Volume, label: str) -> list[Check]:
    """Check the number of rows, and of labelled rows: a day may have all its rows, but too few labels."""
    name, days = comparison_days(day, before, rule)
    if not days:
        observed, allowed = f"{today.rows:,} rows; nothing to compare with", f"any, as there is no data of {name}"
        return [Check(day=day, rule="volume", passed=True, observed=observed, allowed=allowed, key=_KEY)]
    counts = [
        ("volume", None, "rows", today.rows, median(before[other].rows for other in days)),
        ("volume", label, "labelled rows", today.labelled, median(before[other].labelled for other in days)),
    ]
    return [_check(day, *count, name=name, tolerance=rule.tolerance) for count in counts]


def comparison_days(day: date, before: Mapping[date, Profile], rule: Volume) -> tuple[str, list[date]]:
    """The name of what the rule compares with, and the days of the window that it uses."""
    if rule.against == "previous_day":
        yesterday = day - timedelta(days=1)
        return f"the day before, {yesterday}", [yesterday] if yesterday in before else []
    if rule.against == "same_weekday":
        days = sorted(other for other in before if other.weekday() == day.weekday())
        return f"the median of {len(days)} {day:%A}s" if days else f"another {day:%A}", days
    return f"the median of {len(before)} days" if before else "another day", sorted(before)


def _check(
    day: date, rule: str, column: str | None, what: str, count: int, base: float, *, name: str, tolerance: float
) -> Check:
    change = (count - base) / base if base else float(count > 0)
    return Check(
        day=day,
        rule=rule,
        column=column,
        passed=abs(change) <= tolerance,
        observed=f"{count:,} {what}, {percent(change, signed=True)} against {base:,.10g}",
        allowed=f"within {percent(tolerance)} of {name}",
        key=_KEY,
    )
