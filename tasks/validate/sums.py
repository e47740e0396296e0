"""Sums of the profiles of days, which are kept by blocks: see ratchet.runtime.blocks."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date

from pydantic import Field

from ratchet.contracts.document import Document
from tasks.validate.briefs import Brief, brief
from tasks.validate.profile import Profile, total

FirstDays = Mapping[str, Mapping[str, tuple[int, int]]]
"""By column and value: the ordinal of the first day that counts the value by itself, and its rows on that day."""


class Sums(Document):
    """Several days."""

    profile: Profile = Field(default_factory=Profile)
    first: dict[str, dict[str, tuple[int, int]]] = Field(default_factory=dict, description="See FirstDays.")
    briefs: dict[date, Brief] = Field(default_factory=dict, description="Of each day, see briefs.py.")


def of_day(day: date, found: Profile, whole: Collection[str] = ()) -> Sums:
    """The sum of one day. whole: see `brief`."""
    at = day.toordinal()
    counted = {name: one.values for name, one in found.columns.items() if one.values}
    return Sums(
        profile=found,
        first={name: {value: (at, rows) for value, rows in values.items()} for name, values in counted.items()},
        briefs={day: brief(found, whole)},
    )


def add(parts: Sequence[Sums]) -> Sums:
    """The sum of parts in order of date."""
    first: dict[str, dict[str, tuple[int, int]]] = {}
    for part in parts:
        for name, values in part.first.items():
            first[name] = {**values, **first.get(name, {})}
    briefs = {day: one for part in parts for day, one in part.briefs.items()}
    return Sums(profile=total(part.profile for part in parts), first=first, briefs=briefs)


def first_days(days: Mapping[date, Profile]) -> FirstDays:
    """What `Sums.first` is of these days."""
    return add([of_day(day, days[day]) for day in sorted(days)]).first
