"""Checks the window as a whole: no day is a copy of another, and enough days are good."""

from datetime import date

from ratchet.contracts.summaries import Check, Snapshot

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
            rule="excluded days",
            passed=False,
            observed=f"{broken} of {days} days break a rule",
            allowed="at most half of the window",
            key="validate.bad_days",
        )
    ]
