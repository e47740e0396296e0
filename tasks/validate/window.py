"""Checks the window as a whole: no day is a copy of another, was refused or sent twice, and enough days are good."""

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from functools import partial
from statistics import median

from ratchet.contracts import paths
from ratchet.contracts.day_record import DayStates
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.quantities import percent
from ratchet.contracts.snapshot import Snapshot, SnapshotDay
from ratchet.contracts.summaries import OF_WINDOW, Check
from ratchet.pages.words import count
from tasks.validate.profile import Profile

_FEW_REPEATS = 0.01
_TIMES = 3
_FEW_LABELS = 0.5
_KEYS = {"refused": "validate.bad_days", "let in": "validate.bad_days"}
_MOST_EXCLUDED = 0.5


def check_copy(snapshot: Snapshot, day: date) -> Check:
    """Check that the day is not a copy of another day's file."""
    digests = {part.day: part.file.sha256 for part in snapshot.days}
    twins = [other for other, sha256 in digests.items() if sha256 == digests[day] and other != day]
    return Check(
        day=day,
        rule="duplicate",
        passed=not twins,
        observed=f"the same rows as {twins[0]}" if twins else "different rows",
        allowed="rows that no other day has",
        key="source.uri",
    )


def check_excluded(data_date: date, broken: int, days: int) -> list[Check]:
    """A failed check if more than half of the window is excluded."""
    if broken <= _MOST_EXCLUDED * days:
        return []
    return [
        Check(
            day=data_date,
            rule=OF_WINDOW,
            passed=False,
            observed=f"{broken} of {days} days break a rule, or were refused by their own run",
            allowed="at most half of the window",
            key="validate.bad_days",
        )
    ]


def check_refused(states: DayStates, snapshot: Snapshot) -> list[Check]:
    """A failed check for each day that its own run refused, unless a person let these very rows in."""
    sources = {day.day: day.source for day in snapshot.days}
    admitted = {one.day for one in states.counted(snapshot)}
    checks = []
    for one in (*states.refused, *(one for one in states.before if sources.get(one.day) == one.source)):
        if one.day in sources and one.day not in admitted:
            changed = "" if sources[one.day] == one.source else "; its rows have changed since: run this date again"
            observed = f"run {one.run_id} of this date refused it: {one.reason}{changed}"
            checks.append(
                _warning(one.day, "refused", observed, "days that their own run accepted, or a person let in")
            )
    return checks


def check_admitted(states: DayStates, snapshot: Snapshot) -> list[Check]:
    """A warning for each refused day that a person let in."""
    return [
        _warning(one.day, "let in", f"refused by its own run; let in by {one.by}: {one.reason}", "accepted days")
        for one in states.counted(snapshot)
    ]


def check_deliveries(
    states: DayStates, snapshot: Snapshot, profiles: Mapping[date, Profile], spec: PipelineSpec
) -> list[Check]:
    """A warning for each day that did not come as it should.

    Its rows changed after its own run, are those of another day, or come twice, or most of its labels lack.
    """
    checks = [
        _warning(
            day.day, "redelivered", "its rows changed after its own run accepted them", "the rows that were accepted"
        )
        for day in snapshot.days
        if _has_changed(day, states)
    ]
    checks += _check_copies([day for day in snapshot.days if day.day in profiles])
    checks += _check_labels(profiles, spec.label)
    checks += _check_repeats(profiles, None, lambda profile: profile.duplicates)
    for name in spec.with_role("id"):
        checks += _check_repeats(profiles, name, partial(_repeats, name))
    return checks


def _repeats(column: str, profile: Profile) -> int:
    return profile.columns[column].repeats


def _has_changed(day: SnapshotDay, states: DayStates) -> bool:
    accepted = states.accepted.get(day.day)
    refused = any((one.day, one.source) == (day.day, day.source) for one in states.before)
    return accepted is not None and accepted != paths.short(day.source) and not refused


def _check_copies(days: Iterable[SnapshotDay]) -> Iterable[Check]:
    """A warning for each earlier day that is a copy of one before it. For the data date that is an error."""
    first: dict[str, date] = {}
    for day in sorted(days, key=lambda one: one.day)[:-1]:
        if day.file.sha256 in first:
            observed = f"the same rows as {first[day.file.sha256]}"
            yield _warning(day.day, "duplicate", observed, "rows that no other day has")
        first.setdefault(day.file.sha256, day.day)


def _check_labels(profiles: Mapping[date, Profile], label: str) -> Iterable[Check]:
    """A warning for each earlier day with a label on a far smaller share of its rows. Volume checks the data date."""
    shares = {day: profile.labelled / profile.rows for day, profile in profiles.items() if profile.rows}
    for day in sorted(shares)[:-1]:
        usual = median(share for other, share in shares.items() if other != day)
        if shares[day] < _FEW_LABELS * usual:
            observed = f"{percent(shares[day])} of {count(profiles[day].rows, 'row')} have a label"
            yield _warning(day, "labels", observed, f"about {percent(usual)}, as on other days", label)


def _check_repeats(
    profiles: Mapping[date, Profile], column: str | None, repeats: Callable[[Profile], int]
) -> Iterable[Check]:
    """A warning for each day with far more repeats than the others: some data repeat by nature, so only that tells."""
    shares = {day: repeats(profile) / profile.rows for day, profile in profiles.items() if profile.rows}
    for day, share in shares.items():
        usual = median([other for one, other in shares.items() if one != day] or [0.0])
        if share > max(_FEW_REPEATS, _TIMES * usual):
            what = "rows repeat an earlier row" if column is None else f"rows repeat a value of {column}"
            observed = f"{percent(share)} of {count(profiles[day].rows, 'row')}: {what} of the day"
            yield _warning(day, "repeats", observed, f"about {percent(usual)}, as on other days", column)


def _warning(day: date, rule: str, observed: str, allowed: str, column: str | None = None) -> Check:
    return Check(
        day=day,
        rule=rule,
        column=column,
        passed=False,
        severity="warning",
        observed=observed,
        allowed=allowed,
        key=f"columns.{column}.role" if column else _KEYS.get(rule, "source.uri"),
    )
