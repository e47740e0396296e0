"""Days that come twice: a day that has the rows, the ids or the keys of an earlier day of the window."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from statistics import median

from ratchet.contracts.checks import Breach
from ratchet.contracts.quantities import percent
from ratchet.contracts.snapshot import Snapshot, SnapshotDay
from ratchet.contracts.summaries import Check
from tasks.validate.outcome import outcome, usual_most
from tasks.validate.profile import Profile
from tasks.validate.sketch import Sketch, shared

_RULE, _ALLOWED = "duplicate", "rows that no other day has"
_FEW, _MOST = 0.1, 0.5
_TIMES = 2
_DAYS = 3
_BACK = 7
"""Days before a day of the window with which it is compared, to see what days share by nature."""


def check_copy(snapshot: Snapshot, day: date) -> Check:
    """Check that the day is not a copy of another day's file."""
    digests = {part.day: part.file.sha256 for part in snapshot.days}
    twins = [other for other, sha256 in digests.items() if sha256 == digests[day] and other != day]
    observed = f"the same rows as {twins[0]}" if twins else "different rows"
    return outcome(day, _RULE, passed=not twins, observed=observed, allowed=_ALLOWED, key="source.uri")


def check_copies(days: Iterable[SnapshotDay]) -> Iterator[Check]:
    """A warning for each earlier day that is a copy of one before it. For the data date that is an error."""
    first: dict[str, date] = {}
    for day in sorted(days, key=lambda one: one.day)[:-1]:
        if day.file.sha256 in first:
            observed = f"the same rows as {first[day.file.sha256]}"
            yield outcome(
                day.day, _RULE, passed=False, observed=observed, allowed=_ALLOWED, key="source.uri", breach="warn"
            )
        first.setdefault(day.file.sha256, day.day)


def check_redelivery(day: date, profiles: Mapping[date, Profile], breach: Breach) -> Iterator[Check]:
    """Check which share of the day's rows, ids and keys an earlier day has, against what earlier days share.

    profiles: of the day, and of the earlier good days of the window.
    """
    if len(profiles) == 1:
        observed = "not compared: there is no other day"
        yield outcome(
            day, _RULE, passed=False, observed=observed, allowed=_ALLOWED, key="validate.duplicates", breach="warn"
        )
    else:
        for name in ("", *profiles[day].keys):
            yield _check(day, name, {one: _sketch(found, name) for one, found in profiles.items()}, breach)


def _sketch(found: Profile, name: str) -> Sketch:
    if not name:
        return found.hashes
    return found.keys[name].hashes if name in found.keys else ()


def _check(day: date, name: str, sketches: dict[date, Sketch], breach: Breach) -> Check:
    ours = sketches.pop(day)
    most, twin = max((shared(ours, theirs), other) for other, theirs in sketches.items())
    shares = _shares(sketches)
    usual = usual_most(shares)
    # Where days share most by nature, as those of a timetable, no share tells anything.
    limit = 1.0 if median(shares or [0.0]) > _MOST else max(_FEW, min(_TIMES * usual, (1 + usual) / 2))
    what = f"values of {name}" if name else "rows"
    return outcome(
        day,
        _RULE,
        name if name and "," not in name else None,
        passed=most <= limit,
        observed=f"about {percent(most)} of the distinct {what} are those of {twin}",
        allowed=f"at most {percent(limit)}" + (", as days of the window share many by nature" * (limit > _FEW)),
        key="validate.duplicates",
        breach=breach if len(sketches) >= _DAYS else "warn",  # few days do not say what days share by nature
    )


def _shares(sketches: Mapping[date, Sketch]) -> list[float]:
    """The shares that each two near days of the window have in common."""
    days = sorted(sketches)
    pairs = [(one, other) for place, one in enumerate(days) for other in days[max(0, place - _BACK) : place]]
    return [shared(sketches[one], sketches[other]) for one, other in pairs]
