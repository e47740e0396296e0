"""The population stability index (PSI) of each feature: how much the day's distribution differs from a reference.

PSI = sum over bins of (p - q) ln(p / q), with p and q the shares of the day and of the reference. Missing rows are a
bin. Bins of numbers are quantiles of the reference; bins of categories are its most frequent ones and the rest. Few
rows give few bins: with B bins and n and m rows, chance gives about (B - 1)(1/n + 1/m), which must stay below a tenth
of the limit.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from datetime import date

from ratchet.contracts.checks import Drift
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.summaries import Check
from tasks.validate.profile import ColumnProfile, Profile

_NUMERIC_BINS = 10
_CATEGORIES = 21
_CHANCE = 0.1
_NOTHING = 0.5
_KEY = "validate.drift"


def check_drift(
    day: date, today: Profile, reference: Profile, rule: Drift, spec: PipelineSpec, name: str
) -> tuple[list[Check], dict[str, float]]:
    """Check each feature; returns the checks and the indices. name: of the reference, for people."""
    severity = "error" if rule.on_breach == "fail" else "warning"
    checks: list[Check] = []
    indices: dict[str, float] = {}
    for column, settings in spec.columns.items():
        if settings.derived or not settings.is_feature:
            continue
        allowed = f"PSI at most {rule.psi:g} against {name}"
        ours, theirs = today.columns[column], reference.columns.get(column, ColumnProfile())
        if not ours.rows or not theirs.rows:
            observed = "not compared: the reference has no rows of this column"
            passed = True
        else:
            index = psi(ours, theirs, rule.psi)
            indices[column] = round(index, 6)
            passed, observed = index <= rule.psi, f"PSI {index:.3f}"
        checks.append(
            Check(
                day=day,
                rule="drift",
                column=column,
                passed=passed,
                severity=severity,
                observed=observed,
                allowed=allowed,
                key=_KEY,
            )
        )
    return checks, indices


def psi(today: ColumnProfile, reference: ColumnProfile, limit: float) -> float:
    """The index. Bins without rows on one side count as half a row."""
    noise = 1 / today.rows + 1 / reference.rows
    supported = int(1 + _CHANCE * limit / noise)
    if reference.histogram or today.histogram:
        pairs = _numeric(today, reference, max(2, min(_NUMERIC_BINS, supported)))
    else:
        pairs = _categories(today, reference, max(2, min(_CATEGORIES, supported)))
    pairs.append((today.missing, reference.missing))
    return _index([pair for pair in pairs if pair != (0, 0)])


def _index(pairs: Sequence[tuple[int, int]]) -> float:
    ours = [max(pair[0], _NOTHING) for pair in pairs]
    theirs = [max(pair[1], _NOTHING) for pair in pairs]
    shares = [(one / sum(ours), two / sum(theirs)) for one, two in zip(ours, theirs, strict=True)]
    return math.fsum((p - q) * math.log(p / q) for p, q in shares)


def _numeric(today: ColumnProfile, reference: ColumnProfile, bins: int) -> list[tuple[int, int]]:
    starts = quantile_bins(reference.histogram, bins)
    pairs = [[0, 0] for _ in starts] or [[0, 0]]
    for side, histogram in enumerate((today.histogram, reference.histogram)):
        for number, rows in histogram.items():
            # A value below the least one of the reference counts in its first bin.
            pairs[max(0, bisect_right(starts, number) - 1)][side] += rows
    pairs.append([today.infinite, reference.infinite])
    return [(pair[0], pair[1]) for pair in pairs]


def quantile_bins(histogram: dict[int, int], bins: int) -> list[int]:
    """The first grid bin of each of up to `bins` groups with about as many rows each."""
    rows = sum(histogram.values())
    starts: list[int] = []
    below, last = 0, -1
    for number in sorted(histogram):
        group = int((below + histogram[number] / 2) * bins / rows)
        if group != last:
            starts.append(number)
            last = group
        below += histogram[number]
    return starts


def _categories(today: ColumnProfile, reference: ColumnProfile, bins: int) -> list[tuple[int, int]]:
    top = list(reference.values)[: bins - 1]
    pairs = [(today.values.get(value, 0), reference.values[value]) for value in top]
    ours = today.present - sum(pair[0] for pair in pairs)
    theirs = reference.present - sum(pair[1] for pair in pairs)
    return [*pairs, (ours, theirs)]
