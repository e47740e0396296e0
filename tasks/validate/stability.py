"""The population stability index (PSI) of a column: how much its distribution on a day differs from a reference.

PSI = sum over bins of (p - q) ln(p / q), with p and q the shares of the day and of the reference. Missing rows are a
bin. Bins of numbers are quantiles of the reference; bins of categories are its most frequent ones and the rest. Few
rows give few bins: with B bins and n and m rows, chance gives about (B - 1)(1/n + 1/m), which must stay below a tenth
of the limit. The Jensen-Shannon divergence has the same bins; it is bounded, and needs no half rows.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from tasks.validate.profile import ColumnProfile

_NUMERIC_BINS = 10
_CATEGORIES = 21
_CHANCE = 0.1
_NOTHING = 0.5
_ALARMS = 0.01
"""The share of runs in which chance alone may exceed its limit in any column."""


def is_comparable(today: ColumnProfile, reference: ColumnProfile) -> str:
    """Why two profiles cannot be compared; empty if they can."""
    if not reference.rows:
        return "the reference has no rows of this column"
    if not today.rows:
        return "no list of this day has a value"
    ours, theirs = _kind(today), _kind(reference)
    if ours and theirs and ours != theirs:
        return (
            f"the reference has counts of {theirs}, and this day of {ours}, as the column's role, type or in differed"
        )
    if today.type and reference.type and today.type != reference.type:
        return f"the reference has {reference.type}, and this day {today.type}"
    return ""


def _kind(profile: ColumnProfile) -> str:
    """What a profile counts; empty where it has no value to count."""
    return "numbers" if profile.histogram else "values" if profile.values or profile.others else ""


@dataclass(frozen=True, slots=True)
class Difference:
    """The index of two distributions, their Jensen-Shannon divergence in bits, and the number of their bins."""

    psi: float
    js: float
    bins: int


def difference(today: ColumnProfile, reference: ColumnProfile, limit: float) -> Difference:
    """Compare two profiles of a column. In the index, bins without rows on one side count as half a row."""
    noise = 1 / today.rows + 1 / reference.rows
    supported = int(1 + _CHANCE * limit / noise)
    if reference.histogram or today.histogram:
        pairs = _numeric(today, reference, max(2, min(_NUMERIC_BINS, supported)))
    else:
        pairs = _categories(today, reference, max(2, min(_CATEGORIES, supported)))
    pairs.append((today.missing, reference.missing))
    filled = [pair for pair in pairs if pair != (0, 0)]
    return Difference(psi=_index(filled), js=_divergence(filled), bins=len(filled))


def by_chance(bins: int, ours: int, theirs: int, tests: int) -> float:
    """The index that rows of one distribution exceed, in any of so many tests, in one run of a hundred.

    The index times nm/(n + m) is about chi-squared with B - 1 degrees of freedom; Wilson and Hilferty (1931) give the
    quantile.
    """
    freedom = max(1, bins - 1)
    z = NormalDist().inv_cdf(1 - _ALARMS / max(1, tests))
    part = 2 / (9 * freedom)
    return freedom * (1 - part + z * math.sqrt(part)) ** 3 * (1 / ours + 1 / theirs)


def without(whole: ColumnProfile, day: ColumnProfile) -> ColumnProfile:
    """The counts of a sum without those of one of its days. Counts of rare values may be lost, as in the sum."""
    return ColumnProfile(
        rows=whole.rows - day.rows,
        missing=whole.missing - day.missing,
        infinite=whole.infinite - day.infinite,
        histogram=_difference(whole.histogram, day.histogram),
        values={value: left for value, rows in whole.values.items() if (left := rows - day.values.get(value, 0)) > 0},
        others=max(0, whole.others - day.others - sum(r for v, r in day.values.items() if v not in whole.values)),
    )


def _difference(whole: dict[int, int], part: dict[int, int]) -> dict[int, int]:
    return {place: left for place, rows in whole.items() if (left := rows - part.get(place, 0)) > 0}


def _index(pairs: Sequence[tuple[int, int]]) -> float:
    ours = [max(pair[0], _NOTHING) for pair in pairs]
    theirs = [max(pair[1], _NOTHING) for pair in pairs]
    shares = [(one / sum(ours), two / sum(theirs)) for one, two in zip(ours, theirs, strict=True)]
    return math.fsum((p - q) * math.log(p / q) for p, q in shares)


def _divergence(pairs: Sequence[tuple[int, int]]) -> float:
    """Lin (1991): 0 for the same shares, 1 for no bin in common; symmetric."""
    ours, theirs = (sum(side) or 1 for side in zip(*pairs, strict=True))
    found = 0.0
    for one, two in pairs:
        p, q = one / ours, two / theirs
        found += sum(share * math.log2(2 * share / (p + q)) for share in (p, q) if share) / 2
    return min(1.0, max(0.0, found))


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
