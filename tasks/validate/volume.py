"""Compares the rows of the data date, and those with a label, with earlier days."""

import math
from collections.abc import Mapping
from datetime import date, timedelta
from statistics import median

from ratchet.contracts.checks import Breach, Volume
from ratchet.contracts.quantities import percent
from ratchet.contracts.summaries import Check
from ratchet.pages.words import count
from tasks.validate.outcome import outcome
from tasks.validate.profile import Profile

_KEY = "validate.volume"
_WEEK = 7
_FEW = 5
_SAME = 2
_SHARE = 0.9
_SPREADS = 2.0
_CHANCE = 3.0

Counts = Mapping[date, int]


def check_volume(
    day: date, today: Profile, before: Mapping[date, Profile], rule: Volume, label: str | None
) -> list[Check]:
    """Check the number of rows, and of labelled rows: a day may have all its rows, but too few labels.

    label: its column; None if labels of the day may still arrive. A day without a day to compare with has a warning,
    not a pass.
    """
    name, days = comparison_days(day, before, rule)
    if not days:
        observed = f"{count(today.rows, 'row')}; nothing to compare with, as there is no data of {name}"
        return [_result(day, None, observed, f"a comparison with {name}", passed=False, breach="warn")]
    counts: list[tuple[str | None, str, int, Counts]] = [
        (None, "rows", today.rows, {other: found.rows for other, found in before.items()})
    ]
    if label is not None:
        labelled = {other: found.labelled for other, found in before.items()}
        counts.append((label, "labelled rows", today.labelled, labelled))
    if rule.against == "similar_days":
        return [_check_range(day, *given, rule=rule) for given in counts]
    return [
        _check(day, column, what, number, median(base[other] for other in days), name=name, rule=rule)
        for column, what, number, base in counts
    ]


def comparison_days(day: date, before: Mapping[date, Profile], rule: Volume) -> tuple[str, list[date]]:
    """The name of what the rule compares with, and the days of the window that it uses."""
    if rule.against == "previous_day":
        yesterday = day - timedelta(days=1)
        return f"the day before, {yesterday}", [yesterday] if yesterday in before else []
    if rule.against == "same_weekday":
        days = sorted(other for other in before if other.weekday() == day.weekday())
        return f"the median of {len(days)} {day:%A}s" if days else f"another {day:%A}", days
    return f"the median of {len(before)} days" if before else "another day", sorted(before)


def _check(day: date, column: str | None, what: str, number: int, base: float, *, name: str, rule: Volume) -> Check:
    change = (number - base) / base if base else float(number > 0)
    observed = f"{number:,} {what}, {percent(change, signed=True)} against {base:,.10g}"
    passed = abs(change) <= rule.tolerance
    return _result(
        day, column, observed, f"within {percent(rule.tolerance)} of {name}", passed=passed, breach=rule.on_breach
    )


def _check_range(day: date, column: str | None, what: str, number: int, counts: Counts, *, rule: Volume) -> Check:
    """Check that a count lies within the tolerance of the range of similar days."""
    low, high = count_range(day, counts, rule.tolerance)
    spread = _spread(counts, min(_bases(day, counts)))
    weekdays = f"the last {day:%A}s, " if any(other.weekday() == day.weekday() for other in counts) else ""
    similar = f"{weekdays}the last days and the newest one"
    wider = ", or what the window's days differ by among themselves" if spread > math.log1p(rule.tolerance) else ""
    allowed = f"{low:,} to {high:,}: within {percent(rule.tolerance)}{wider} of {similar}"
    return _result(day, column, f"{number:,} {what}", allowed, passed=low <= number <= high, breach=rule.on_breach)


def count_range(day: date, counts: Counts, tolerance: float, times: int = 1) -> tuple[int, int]:
    """The least and the greatest count within `times` the tolerance of similar days. counts: of earlier days.

    Times as a ratio: twice 50 % less is a quarter.
    """
    bases = _bases(day, counts)
    spread = _spread(counts, min(bases))
    low = min(bases) * min(max(0.0, 1 - tolerance) ** times, math.exp(-spread))
    high = max(bases) * max((1 + tolerance) ** times, math.exp(spread))
    return math.ceil(low), math.floor(high)


def _bases(day: date, counts: Counts) -> list[float]:
    """What similar days let expect.

    Once two days of the same weekday are there: their median, as it is, and times what the newest days were in terms of
    their own weekdays. Before that, the newest days as they are.
    """
    weekdays = [number for other, number in counts.items() if other.weekday() == day.weekday()]
    newest = sorted(counts)[-_WEEK:]
    if len(weekdays) < _SAME:
        numbers = [counts[other] for other in newest]
        return [median(numbers), numbers[-1], *map(float, weekdays)]
    trends = [counts[other] / usual for other in newest if (usual := _usual(other, counts))] or [1.0]
    return [median(weekdays) * trend for trend in (1.0, median(trends), trends[-1])]


def _spread(counts: Counts, base: float) -> float:
    """How far apart two similar days are by nature, as the logarithm of a ratio: by their own spread, or by chance."""
    ratios = sorted(
        abs(math.log(number / other)) for day, number in counts.items() if number and (other := _usual(day, counts))
    )
    own = ratios[math.ceil(_SHARE * len(ratios)) - 1] if len(ratios) >= _FEW else 0.0
    return max(_SPREADS * own, _CHANCE / math.sqrt(max(base, 1.0)))


def _usual(day: date, counts: Counts) -> float:
    """The median of the other days of the same weekday, or of all other days where there is none."""
    same = [number for other, number in counts.items() if other != day and other.weekday() == day.weekday()]
    others = same or [number for other, number in counts.items() if other != day]
    return median(others) if others else 0.0


def _result(day: date, column: str | None, observed: str, allowed: str, *, passed: bool, breach: Breach) -> Check:
    return outcome(day, "volume", column, passed=passed, observed=observed, allowed=allowed, key=_KEY, breach=breach)
