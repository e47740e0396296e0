"""Rows that repeat an earlier one of their day: whole rows, the values of an id, and keys that must be unique."""

from collections.abc import Callable, Iterator, Mapping
from datetime import date
from functools import partial
from statistics import median

from ratchet.contracts.checks import Unique
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.quantities import percent
from ratchet.contracts.summaries import Check
from ratchet.pages.words import count
from tasks.validate.outcome import outcome, usual_most
from tasks.validate.profile import KeyProfile, Profile

_KEY = "validate.repeats"
_FEW = 0.01
_MANY = 0.05
_TIMES = 3
_DAYS = 2
"""Other days, without which a repeat may be natural."""


def check_unique(day: date, found: Profile, keys: tuple[Unique, ...]) -> Iterator[Check]:
    """Check the declared keys of a day."""
    for key in keys:
        column = key.columns[0] if len(key.columns) == 1 else None
        measured = found.keys.get(key.name, KeyProfile())
        allowed = f"no two rows with the same {key.name}"
        observed = f"{count(measured.repeats, 'row')} with the {key.name} of an earlier row of the day"
        compared = measured.rows > 0
        yield outcome(
            day,
            "unique",
            column,
            passed=compared and not measured.repeats,
            observed=observed if compared else f"nothing compared: no row has a value in {key.name}",
            allowed=allowed,
            key="validate.unique",
            breach=key.on_breach if compared else "warn",
        )


def check_repeats(profiles: Mapping[date, Profile], data_date: date, spec: PipelineSpec) -> Iterator[Check]:
    """A failed check for each day with far more repeats than the others: some data repeat by nature.

    One row in twenty or more on the data date, far more than is usual on other days, is as validate.repeats says; all
    else is a warning.
    """
    if spec.validate_.repeats is None:
        return
    yield from _check(profiles, data_date, None, lambda profile: profile.duplicates, spec)
    for name in spec.with_role("id"):
        yield from _check(profiles, data_date, name, partial(_repeats, name), spec)


def _repeats(name: str, profile: Profile) -> int:
    return profile.keys[name].repeats if name in profile.keys else 0


def _check(
    profiles: Mapping[date, Profile],
    data_date: date,
    column: str | None,
    repeats: Callable[[Profile], int],
    spec: PipelineSpec,
) -> Iterator[Check]:
    shares = {day: repeats(profile) / profile.rows for day, profile in profiles.items() if profile.rows}
    for day, share in shares.items():
        others = [other for one, other in shares.items() if one != day]
        usual = median(others or [0.0])
        if share <= max(_FEW, _TIMES * usual):
            continue
        far = len(others) >= _DAYS and share > max(_MANY, _TIMES * usual_most(others))
        what = "rows repeat an earlier row" if column is None else f"rows repeat a value of {column}"
        yield outcome(
            day,
            "repeats",
            column,
            passed=False,
            observed=f"{percent(share)} of {count(profiles[day].rows, 'row')}: {what} of the day",
            allowed=f"about {percent(usual)}, as on other days",
            key=_KEY,
            breach=spec.validate_.repeats or "warn" if day == data_date and far else "warn",
        )
