"""What is checked of the window as a whole: that no day is a copy of another, and that enough days are good."""

from datetime import date

from ratchet.contracts.summaries import Check, Snapshot

_MOST_EXCLUDED = 0.5


def check_copy(snapshot: Snapshot, day: date) -> Check:
    """A day that is another day's file delivered twice."""
    digests = {part.day: part.file.sha256 for part in snapshot.days}
    twins = [other for other, sha256 in digests.items() if sha256 == digests[day] and other != day]
    return Check(
        day=day,
        rule="duplicate",
        passed=not twins,
        observed=f"the same rows as {twins[0]}" if twins else "rows of its own",
        allowed="rows that no other day has",
        key="source.uri",
    )


def check_excluded(data_date: date, broken: int, days: int) -> list[Check]:
    """More than half of the window left out is no longer the data that was asked for."""
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
