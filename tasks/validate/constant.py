"""Features with one value a day by nature, such as the month, a holiday, or the weather of the day."""

from collections.abc import Sequence

from tasks.validate.profile import ColumnProfile

_FEW = 1


def constant_by_day(today: ColumnProfile, earlier: Sequence[ColumnProfile], reference: ColumnProfile) -> bool:
    """Whether a column has one value on each day, and not the same on all: then its rows cannot drift, only its days.

    A column that was the same on every earlier day counts too, if its value of today is another one, or if the
    reference has no more values than such a column can have: the window lies within a month that the reference does not
    know. A column that got stuck had more.
    """
    days = [*earlier, today]
    if len(earlier) < _FEW or not all(_is_constant(day) for day in days):
        return False
    return len({_value(day) for day in days}) > 1 or _values(reference) <= len(days)


def new_constant(today: ColumnProfile, earlier: Sequence[ColumnProfile]) -> tuple[str, bool]:
    """The day's value, and whether it is new: not seen before; for a number, far outside of what was seen."""
    value, seen = _value(today), [_value(day) for day in earlier]
    numbers = [float(day.low) for day in earlier if day.histogram and day.low is not None]
    if not today.histogram or len(numbers) < len(earlier):
        return str(value), value not in seen
    low, high = min(numbers), max(numbers)
    number, reach = float(today.low or 0), high - low
    return f"{number:.6g}", not low - reach <= number <= high + reach


def _is_constant(day: ColumnProfile) -> bool:
    if day.histogram:
        return day.low == day.high and not day.infinite and not day.missing
    return len(day.values) == 1 and not day.others and not day.missing


def _value(day: ColumnProfile) -> object:
    return day.low if day.histogram else next(iter(day.values), None)


def _values(found: ColumnProfile) -> int:
    """The number of values that a profile distinguishes; those beyond the kept ones count as one."""
    return len(found.histogram) or len(found.values) + bool(found.others)
