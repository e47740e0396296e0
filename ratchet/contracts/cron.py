"""Cron expressions: five fields that Airflow's reader takes too, and a time that comes.

Checked here because one that Airflow refuses takes the DAG file down, and its reader, croniter, is not in the stage
image. It also takes what nobody means: 30 February, which never comes, and `5-5`, which it reads as always.
"""

import re
from difflib import get_close_matches
from typing import NamedTuple


class _Field(NamedTuple):
    name: str
    least: int
    most: int
    size: int
    """How many different values it has."""
    names: tuple[str, ...] = ()
    """Of the values from `least` on."""

    @property
    def allowed(self) -> str:
        return f"{self.least}-{self.most}{f', {self.names[0]}-{self.names[-1]}' if self.names else ''}"


_FIELDS = (
    _Field("minute", 0, 59, 60),
    _Field("hour", 0, 23, 24),
    _Field("day", 1, 31, 31),
    _Field("month", 1, 12, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")),
    _Field("weekday", 0, 7, 7, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""Days of the months."""
MAX_LENGTH = 80
"""In words it has to go into the 1,000 characters that Airflow's database has for it."""
_LAST = 28
"""Stands for the last day of any month, which each month has."""
_ITEM = re.compile(r"(?P<first>\*|[0-9a-z]{1,9})(?:-(?P<last>[0-9a-z]{1,9}))?(?:/(?P<step>[0-9]{1,9}))?")


def check_cron(text: str) -> str:
    """The expression with single blanks between its fields. Raises ValueError that says what is wrong with which."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"{text[:20]!r}... has {len(text)} characters; allowed: up to {MAX_LENGTH}")
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"{text!r} is not five fields (minute hour day month weekday); write it like 0 2 * * *")
    try:
        _, _, days, months, _ = (_values(part.lower(), field) for part, field in zip(fields, _FIELDS, strict=True))
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    if fields[4] == "*" and not any(day <= _LONGEST[month - 1] for day in days for month in months):
        raise ValueError(f"{text!r} never comes: no such month has day {min(days)}")
    return " ".join(fields)


def _values(text: str, field: _Field) -> set[int]:
    items = text.split(",")
    if len(items) > 1 and "*" in items:
        raise ValueError(f"{field.name} {text}: * means every {field.name} and stands alone")
    return {value for item in items for value in _item(item, field)}


def _item(text: str, field: _Field) -> set[int]:
    if field.name == "day" and text == "l":
        return {_LAST}
    found = _ITEM.fullmatch(text)
    if found is None or (found["first"] == "*" and found["last"]):
        raise ValueError(f"{field.name} {text!r} is not allowed; allowed: *, {field.allowed}, a-b, a,b and */n")
    step = int(found["step"] or 1)
    if not 1 <= step <= field.size:
        raise ValueError(f"{field.name} {text}: steps of {step} are not allowed; allowed: 1-{field.size}")
    if found["first"] == "*":
        return set(range(field.least, field.least + field.size, step))
    first = _number(found["first"], field)
    if found["last"] is None:
        return set(range(first, field.most + 1, step)) if found["step"] else {first}
    last = _number(found["last"], field)
    if first == last:
        raise ValueError(f"{field.name} {text}: is a single {field.name}; write it without the range")
    if first > last:  # around the end, as in fri-mon
        last += field.size
    return {(value - field.least) % field.size + field.least for value in range(first, last + 1, step)}


def _number(text: str, field: _Field) -> int:
    if text in field.names:
        return field.names.index(text) + field.least
    if text.isdigit() and field.least <= int(text) <= field.most:
        return int(text)
    near = get_close_matches(text, field.names, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ValueError(f"{field.name} {text} is not allowed; allowed: {field.allowed}{hint}")
