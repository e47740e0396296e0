"""Features that varied on each earlier day and have one value now: a sensor or a join that got stuck."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from ratchet.contracts.checks import Breach
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.quantities import percent
from ratchet.contracts.summaries import Check
from ratchet.pages.words import count
from tasks.validate.outcome import not_compared, outcome
from tasks.validate.profile import ColumnProfile, Profile

_KEY = "validate.constants"
_UNLIKELY = 1e-4
_DAYS = 2


def check_constants(
    day: date, today: Profile, before: Mapping[date, Profile], spec: PipelineSpec, breach: Breach
) -> Iterator[Check]:
    """Check each feature of the source that varied before. A constant that chance can give is none."""
    names = [name for name, column in spec.columns.items() if column.is_feature and not column.derived]
    if len(before) < _DAYS:
        allowed = f"{_DAYS} earlier days or more"
        yield from not_compared(day, "constant", names, why="too few earlier days", allowed=allowed, key=_KEY)
        return
    for name in names:
        days = [found.columns[name] for found in before.values() if name in found.columns]
        if len(days) < _DAYS or not all(_varies(one) for one in days):
            continue
        found = today.columns[name]
        # If most rows always have one value, a small day may have no other.
        chance = max(_largest(one) for one in days) ** found.present
        stuck = found.present > 1 and not _varies(found) and chance < _UNLIKELY
        value = found.low if found.low is not None else next(iter(found.values), None)
        yield outcome(
            day,
            "constant",
            name,
            passed=not stuck,
            observed=f"{value} on each of {count(found.present, 'row')}" if stuck else "varies, as before",
            allowed=f"more than one value; the most frequent one had up to {percent(_most(days))} of an earlier day",
            key=_KEY,
            breach=breach,
        )


def _varies(found: ColumnProfile) -> bool:
    if found.values or found.others:
        return len(found.values) > 1 or found.others > 0
    return found.low != found.high or found.infinite > 0


def _largest(found: ColumnProfile) -> float:
    """The share of the most frequent value, or of the fullest bin of numbers."""
    counts = found.values or found.histogram
    return max(counts.values(), default=0) / max(1, found.present)


def _most(days: Sequence[ColumnProfile]) -> float:
    return max(_largest(one) for one in days)
