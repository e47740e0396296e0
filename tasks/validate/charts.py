"""The charts of the validation page."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from datetime import date

from markupsafe import Markup

from ratchet.contracts.quantities import percent
from ratchet.contracts.summaries import Validation
from ratchet.pages.svg import WIDE, DayBar, bar, cut, day_chart, group, line, polyline, short, svg, text
from ratchet.pages.words import count
from tasks.validate import grid
from tasks.validate.profile import ColumnProfile

_BARS = 32
_CATEGORIES = 8
_SKEWED = 100
_TAIL = 0.005
_NARROW = 300.0


def volume(today: date, validation: Validation) -> Markup:
    """Rows by day: the labelled rows solid, the data date in another colour, excluded days pale."""
    days = []
    for day, rows in sorted(validation.rows.items()):
        mark = "today" if day == today else "excluded" if day in validation.excluded else ""
        labelled = validation.labelled[day]
        title = f"{day:%a} {day}: {count(rows, 'row')}, {labelled:,} with a label"
        days.append(
            DayBar(
                day=day,
                title=f"{title} ({mark})" if mark else title,
                bars=(("whole", rows), ("part", labelled)),
                kind=f"day {mark}",
            )
        )
    return day_chart(days)


def drift(indices: Mapping[str, float], limit: float) -> Markup:
    """A bar for each feature, largest first, with the limit as a line."""
    ordered = sorted(indices.items(), key=lambda item: (-item[1], item[0]))
    left, row, width = 220.0, 24.0, WIDE - 220 - 70
    top = max([limit * 1.25, *indices.values()])
    height = row * len(ordered) + 26
    x = left + width * limit / top
    parts = [line("limit", x, 18, x, height), text(x, 12, f"limit {limit:g}", "middle")]
    for i, (name, value) in enumerate(ordered):
        y = 24 + i * row
        parts.append(text(left - 10, y + 12, cut(name, 26), "end", "label"))
        parts.append(bar("bad" if value > limit else "part", left, y, max(1.0, width * value / top), 14))
        end = left + width * value / top
        # Do not write the number across the limit.
        parts.append(text(x + 6 if end < x < end + 50 else end + 8, y + 12, f"{value:.3f}", "start"))
    return svg(WIDE, height, parts, "Population stability index by feature")


def column(today: ColumnProfile, reference: ColumnProfile) -> Markup:
    """A column of the data date (bars) and of the reference (a line, or thin bars for categories)."""
    if today.histogram or reference.histogram:
        return _numbers(today.histogram, reference.histogram)
    if today.values or reference.values:
        return _categories(today, reference)
    return Markup("")


def _numbers(today: dict[int, int], reference: dict[int, int]) -> Markup:
    cuts = _cuts([histogram for histogram in (today, reference) if histogram])
    ours, theirs = _shares(today, cuts), _shares(reference, cuts)
    top = max([*ours, *theirs, 1e-9])
    base, tall = 104.0, 96.0
    step = _NARROW / len(ours)
    parts = [line("grid", 0, base, _NARROW, base)]
    for i, share in enumerate(ours):
        tip = f"{short(cuts[i])} to {short(cuts[i + 1])}: {_compare_shares(share, theirs[i])}"
        high = tall * share / top
        parts.append(
            group("", tip, bar("hit", i * step, 4, step, 100), bar("part", i * step + 0.5, base - high, step - 1, high))
        )
    if reference:
        steps = [(place * step, base - tall * theirs[i] / top) for i in range(len(theirs)) for place in (i, i + 1)]
        parts.append(polyline("reference", steps))
    parts += [text(0, 122, short(cuts[0]), "start"), text(_NARROW, 122, short(cuts[-1]), "end")]
    return svg(_NARROW, 130.0, parts, "Distribution")


def _compare_shares(ours: float, theirs: float) -> str:
    return f"{percent(ours)} of the day, {percent(theirs)} of the reference"


def _cuts(histograms: Sequence[dict[int, int]]) -> list[float]:
    """Edges of the bars around the bulk of the rows of each histogram; on a logarithmic scale for a wide range."""
    bulks = [_bulk(histogram) for histogram in histograms]
    first, last = min(bulk[0] for bulk in bulks), max(bulk[1] for bulk in bulks)
    low, high = grid.edges(first)[0], grid.edges(last)[1]
    if low > 0 and high / low > _SKEWED:
        return [low * (high / low) ** (i / _BARS) for i in range(_BARS + 1)]
    if first >= 0 and low < high / _BARS:
        low = 0.0
    return [low + (high - low) * i / _BARS for i in range(_BARS + 1)]


def _bulk(histogram: dict[int, int]) -> tuple[int, int]:
    """The first and the last bin without the rows in the tails."""
    rows = sum(histogram.values())
    inner, below = [], 0
    for number in sorted(histogram):
        if below <= rows * (1 - _TAIL) and below + histogram[number] >= rows * _TAIL:
            inner.append(number)
        below += histogram[number]
    return inner[0], inner[-1]


def _shares(histogram: dict[int, int], cuts: Sequence[float]) -> list[float]:
    """The share of the rows in each bar; the rows of a grid bin are spread evenly over the bars that it overlaps."""
    rows = sum(histogram.values()) or 1
    shares = [0.0] * (len(cuts) - 1)
    for number, found in histogram.items():
        low, high = grid.edges(number)
        for i in range(max(0, bisect_right(cuts, low) - 1), min(len(shares), bisect_left(cuts, high))):
            overlap = min(high, cuts[i + 1]) - max(low, cuts[i])
            if overlap > 0:
                shares[i] += found / rows * overlap / (high - low)
    return shares


def _categories(today: ColumnProfile, reference: ColumnProfile) -> Markup:
    names = list(reference.values or today.values)[:_CATEGORIES]
    names += [name for name in list(today.values)[:_CATEGORIES] if name not in reference.values and name not in names][
        :2
    ]
    pairs = [(name, today.values.get(name, 0), reference.values.get(name, 0)) for name in names]
    top = max(max(pair[1] / max(1, today.present), pair[2] / max(1, reference.present)) for pair in pairs)
    rest = today.present - sum(pair[1] for pair in pairs), reference.present - sum(pair[2] for pair in pairs)
    if any(rest):
        pairs.append(("(all others)", *rest))
    ours, theirs = max(1, today.present), max(1, reference.present)
    parts: list[Markup] = []
    for i, (name, mine, base) in enumerate(pairs):
        y, a, b = i * 22.0, mine / ours, base / theirs
        # The rest may be most of the rows: its bars are at most as long as the longest of a value.
        wide = [150 * min(1.0, share / top) for share in (a, b)]
        parts.append(
            group(
                "",
                f"{name}: {_compare_shares(a, b)}",
                text(92, y + 13, cut(name, 14), "end", "label"),
                bar("part", 100, y + 2, max(0.5, wide[0]), 9),
                bar("against", 100, y + 12, max(0.5, wide[1]), 4),
                text(108 + max(wide), y + 13, percent(a), "start"),
            )
        )
    return svg(_NARROW, 22.0 * len(pairs) + 2, parts, "Shares of values")


def missing(share: float, reference: float) -> Markup:
    """A small bar for the share of missing rows, with a tick at the share of the reference."""
    parts = [
        bar("track", 0, 3, 100, 8),
        bar("part" if share <= max(0.05, 2 * reference) else "bad", 0, 3, 100 * share, 8),
        bar("tick", min(98.0, 100 * reference), 0, 2, 14),
    ]
    return svg(100, 14, parts, f"{percent(share)} missing")
