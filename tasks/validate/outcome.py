"""The result of a rule as a check, with the severity that the pipeline file gives it."""

from collections.abc import Iterable, Sequence
from datetime import date

from ratchet.contracts.checks import Breach
from ratchet.contracts.summaries import Check

_MANY = 5


def outcome(
    day: date,
    rule: str,
    column: str | None = None,
    *,
    passed: bool,
    observed: str,
    allowed: str,
    key: str,
    breach: Breach = "fail",
) -> Check:
    """A check. breach: what a broken rule does; see `Check` for the rest."""
    return Check(
        day=day,
        rule=rule,
        column=column,
        passed=passed,
        severity="error" if breach == "fail" else "warning",
        observed=observed,
        allowed=allowed,
        key=key,
    )


def usual_most(others: Sequence[float]) -> float:
    """The most that is usual on other days: of five or more the second largest, so that one odd day is not usual."""
    return sorted(others)[-2 if len(others) >= _MANY else -1] if others else 0.0


def not_compared(day: date, rule: str, columns: Sequence[str], *, why: str, allowed: str, key: str) -> Iterable[Check]:
    """One warning for all columns that a rule could not compare: it is no pass."""
    if columns:
        column = columns[0] if len(columns) == 1 else None
        observed = f"not compared: {why}" + (f" ({', '.join(columns)})" if len(columns) > 1 else "")
        yield outcome(day, rule, column, passed=False, observed=observed, allowed=allowed, key=key, breach="warn")
