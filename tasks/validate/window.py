"""Checks the window as a whole: no day was refused or sent twice, labels are there, and enough days are good."""

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from statistics import median

from ratchet.contracts import paths
from ratchet.contracts.day_record import DayStates
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.quantities import percent
from ratchet.contracts.snapshot import Snapshot, SnapshotDay
from ratchet.contracts.summaries import OF_WINDOW, Check
from ratchet.pages.words import count
from tasks.validate.duplicates import check_copies
from tasks.validate.label_rate import immature
from tasks.validate.profile import Profile
from tasks.validate.repeats import check_repeats
from tasks.validate.times import check_earlier_times

_FEW_LABELS = 0.5
_KEYS = {"refused": "validate.bad_days", "let in": "validate.bad_days"}
_MOST_EXCLUDED = 0.5


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
    """A failed check for each day that its own run or a person refused, unless a person let these very rows in."""
    sources = {day.day: day.source for day in snapshot.days}
    admitted = {one.day for one in states.counted(snapshot)}
    checks = []
    for one in (*states.refused, *(one for one in states.before if sources.get(one.day) == one.source)):
        if one.day in sources and one.day not in admitted:
            changed = "" if sources[one.day] == one.source else "; its rows have changed since: run this date again"
            who = one.by or f"run {one.run_id} of this date"
            observed = f"{who} refused it: {one.reason}{changed}"
            checks.append(
                _warning(one.day, "refused", observed, "days that their own run accepted, or a person let in")
            )
    return checks


def check_admitted(states: DayStates, snapshot: Snapshot) -> list[Check]:
    """A warning for each refused day that a person let in."""
    return [
        _warning(one.day, "let in", f"it was refused; let in by {one.by}: {one.reason}", "accepted days")
        for one in states.counted(snapshot)
    ]


def check_deliveries(
    states: DayStates, snapshot: Snapshot, profiles: Mapping[date, Profile], data_date: date, spec: PipelineSpec
) -> list[Check]:
    """The failed checks of the days that did not come as they should.

    Their rows changed after their own run, are those of another day, or come twice, or most of their labels lack.
    """
    checks = [
        _warning(
            day.day, "redelivered", "its rows changed after its own run accepted them", "the rows that were accepted"
        )
        for day in snapshot.days
        if _has_changed(day, states) and not _labels_arrive(day.day, data_date, spec)
    ]
    checks += check_copies([day for day in snapshot.days if day.day in profiles])
    mature = {day: found for day, found in profiles.items() if not immature(spec, data_date, day)}
    checks += _check_labels(mature, data_date, spec.label)
    checks += check_repeats(profiles, data_date, spec)
    checks += check_earlier_times(profiles, data_date, spec)
    return checks


def _labels_arrive(day: date, data_date: date, spec: PipelineSpec) -> bool:
    """Whether the rows of a day may have changed since its own run because labels arrived."""
    delay = spec.validate_.label_delay_days
    return bool(delay) and immature(spec, data_date - timedelta(days=1), day)


def _has_changed(day: SnapshotDay, states: DayStates) -> bool:
    accepted = states.accepted.get(day.day)
    refused = any((one.day, one.source) == (day.day, day.source) for one in states.before)
    return accepted is not None and accepted != paths.short(day.source) and not refused


def _check_labels(profiles: Mapping[date, Profile], data_date: date, label: str) -> Iterable[Check]:
    """A warning for each earlier day with a label on a far smaller share of its rows. Volume checks the data date."""
    shares = {day: profile.labelled / profile.rows for day, profile in profiles.items() if profile.rows}
    for day in sorted(shares):
        usual = median([share for other, share in shares.items() if other != day] or [0.0])
        if day != data_date and shares[day] < _FEW_LABELS * usual:
            observed = f"{percent(shares[day])} of {count(profiles[day].rows, 'row')} have a label"
            yield _warning(day, "labels", observed, f"about {percent(usual)}, as on other days", label)


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
