"""The rows of each value of a column, compared with earlier days: one country may vanish while the total holds."""

from collections.abc import Iterator, Mapping
from datetime import date
from statistics import median

from ratchet.contracts.checks import Volume, counts_values
from ratchet.contracts.columns import LISTS
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.summaries import Check
from ratchet.pages.words import count
from tasks.validate.outcome import outcome
from tasks.validate.profile import ColumnProfile, Profile
from tasks.validate.volume import count_range

_FEWEST, _SMALLEST = 30, 0.02
"""Rows of an ordinary day, and their share, below which a value is not checked: small ones come and go by nature."""
_TIMES = 2
_DAYS = 2
_LISTED = 3


def check_slices(
    day: date, today: Profile, before: Mapping[date, Profile], rule: Volume, spec: PipelineSpec
) -> Iterator[Check]:
    """Check each value of the columns of validate.volume.by, or of evaluate.slices, that usually has enough rows.

    Slices of evaluate that are not named in validate.volume.by only warn: a campaign among them may end.
    """
    for name in sliced_columns(spec):
        days = {other: found.columns[name] for other, found in before.items() if name in found.columns}
        if len(days) < _DAYS:
            observed, allowed = "not compared: too few earlier days", f"{_DAYS} earlier days or more"
            yield _result(day, name, rule, passed=False, observed=observed, allowed=allowed, warns=True)
            continue
        fewest = max(_FEWEST, _SMALLEST * median(found.rows for found in days.values()))
        wrong, checked = [], 0
        for value in sorted(set().union(*(found.values for found in days.values()))):
            counts = {other: _count(found, value) for other, found in days.items()}
            if median(counts.values()) < fewest:
                continue
            checked += 1
            low, high = count_range(day, counts, rule.tolerance, _TIMES)
            low = max(low, min(1, *counts.values()))  # a value that each earlier day has may not vanish
            found = _count(today.columns[name], value)
            if not low <= found <= high:
                wrong.append((value, found, low, high))
        some = "; ".join(
            f"{value!r}: {count(found, 'row')}, not {low:,} to {high:,}" for value, found, low, high in wrong[:_LISTED]
        )
        more = f"; {count(len(wrong) - _LISTED, 'more value')}" if len(wrong) > _LISTED else ""
        yield _result(
            day,
            name,
            rule,
            passed=not wrong,
            observed=some + more if wrong else f"{count(checked, 'value')} with about as many rows as before",
            allowed="the rows that similar days have of each value",
        )


def sliced_columns(spec: PipelineSpec) -> tuple[str, ...]:
    """The columns whose values are counted by themselves."""
    rule = spec.validate_.volume
    if rule is None:
        return ()
    if rule.by is not None:
        return rule.by
    named = dict.fromkeys(one.column for one in spec.evaluate.slices if one.column and one.bins is None)
    columns = {name: spec.columns[name] for name in named if name in spec.columns}
    return tuple(
        name
        for name, column in columns.items()
        if counts_values(column) and not column.derived and column.type not in LISTS
    )


def _count(found: ColumnProfile, value: str) -> int:
    """The rows of a value; of one that is among the others at most as many as the rarest of those that are counted."""
    return found.values.get(value, min(found.values.values(), default=0) if found.others else 0)


def _result(
    day: date, name: str, rule: Volume, *, passed: bool, observed: str, allowed: str, warns: bool = False
) -> Check:
    return outcome(
        day,
        "slice volume",
        name,
        passed=passed,
        observed=observed,
        allowed=allowed,
        key="validate.volume.by",
        breach="warn" if warns or rule.by is None else rule.on_breach,
    )
