"""Categories that are new on a day, and those that are gone.

Counts of categories are exact up to 1,000 values a day. Where rarer ones are counted together, the share of new ones is
an upper bound, and the result says so; the days of the window are measured in the same way.
"""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import date

from ratchet.contracts.checks import Breach
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.quantities import percent
from ratchet.contracts.summaries import Check
from ratchet.pages.words import count
from tasks.validate.constant import constant_by_day
from tasks.validate.outcome import not_compared, outcome
from tasks.validate.profile import ColumnProfile, Profile, values_of
from tasks.validate.sums import FirstDays

_LISTED = 5
_FEW, _FEW_ROWS = 0.01, 5
_TIMES = 2
_LARGE = 0.05
_UNLIKELY = 1e-6
_DAYS = 2


def check_categories(
    day: date, today: Profile, before: Mapping[date, Profile], first: FirstDays, spec: PipelineSpec
) -> Iterator[Check]:
    """Check each categorical feature of the source. before: the earlier good days. first: of them, see sums.py."""
    rules = spec.validate_
    names = [name for name, column in spec.columns.items() if column.role == "categorical" and not column.derived]
    names = [values_of(name) if spec.columns[name].is_list else name for name in names]
    dated = {
        name: {day: found.columns[name] for day, found in sorted(before.items()) if name in found.columns}
        for name in names
    }
    days = {name: [*each.values()] for name, each in dated.items()}
    few = [name for name in names if len(days[name]) < _DAYS]
    for rule, key, breach in (
        ("new categories", "validate.new_categories", rules.new_categories),
        ("lost categories", "validate.lost_categories", rules.lost_categories),
    ):
        if breach is not None:
            allowed = f"{_DAYS} earlier days or more"
            yield from not_compared(day, rule, few, why="too few earlier days", allowed=allowed, key=key)
    for name in names:
        if name in few or constant_by_day(today.columns[name], days[name], ColumnProfile()):
            continue
        if rules.new_categories is not None:
            yield _new(day, name, today.columns[name], dated[name], first.get(name, {}), rules.new_categories)
        if rules.lost_categories is not None:
            yield _lost(day, name, today.columns[name], days[name], rules.lost_categories)


def _new(
    day: date,
    name: str,
    today: ColumnProfile,
    days: Mapping[date, ColumnProfile],
    first: Mapping[str, tuple[int, int]],
    breach: Breach,
) -> Check:
    new: Counter[int] = Counter()
    for at, number in first.values():
        new[at] += number
    shares = [new[earlier.toordinal()] / max(1, found.present) for earlier, found in days.items()]
    # The first days of the window know few values; so only those of its second half say what is usual.
    limit = max(_FEW, _TIMES * max(shares[max(1, len(shares) // 2) :]))
    share, values = _unseen(today, first)
    rows = round(share * today.present)
    bound = "up to " if today.others or any(one.others for one in days.values()) else ""
    some = ", ".join(f"{value[:40]!r}" for value in values[:_LISTED]) + (", ..." if len(values) > _LISTED else "")
    return outcome(
        day,
        "new categories",
        name,
        passed=share <= limit or rows < _FEW_ROWS,
        observed=f"{bound}{percent(share)} of the rows have a value that no earlier day has"
        + (f": {some} ({count(rows, 'row')})" if values else ""),
        allowed=f"at most {percent(min(limit, 1.0))}" + (", by what was new on earlier days" if limit > _FEW else ""),
        key="validate.new_categories",
        breach=breach,
    )


def _unseen(found: ColumnProfile, seen: Container[str]) -> tuple[float, list[str]]:
    """The share of the rows with a value that was not seen, and these values."""
    values = [value for value in found.values if value not in seen]
    return sum(found.values[value] for value in values) / max(1, found.present), values


def _lost(day: date, name: str, today: ColumnProfile, days: Sequence[ColumnProfile], breach: Breach) -> Check:
    common = set(days[0].values).intersection(*(one.values for one in days[1:]))
    shares = {value: min(one.values[value] / max(1, one.present) for one in days) for value in common}
    # A value that is not counted by itself may be among the others.
    gone = [] if today.others else [value for value in common if value not in today.values]
    lost = sorted(
        (value for value in gone if shares[value] >= _LARGE and (1 - shares[value]) ** today.present < _UNLIKELY),
        key=lambda value: (-shares[value], value),
    )
    some = ", ".join(f"{value[:40]!r} (at least {percent(shares[value])} of each day)" for value in lost[:_LISTED])
    return outcome(
        day,
        "lost categories",
        name,
        passed=not lost,
        observed=f"no row with {some}" if lost else "every large category is there",
        allowed=f"rows of each value that every earlier day has, with {percent(_LARGE)} of its rows or more",
        key="validate.lost_categories",
        breach=breach,
    )
