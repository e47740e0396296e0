"""A reference of drift from the profiles of days, as the stage makes one from blocks of days."""

from collections.abc import Mapping
from datetime import date

from tasks.validate.drift import Reference, last_week
from tasks.validate.profile import Profile, total
from tasks.validate.sums import first_days


def reference(profile: Profile, name: str, days: Mapping[date, Profile]) -> Reference:
    """days: the other good days."""
    return Reference(
        profile=profile,
        name=name,
        days=days,
        summed=total(days.values()),
        week=total(days[day] for day in last_week(days)),
        first=first_days(days),
        whole=days.__getitem__,
    )
