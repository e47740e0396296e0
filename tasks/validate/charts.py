"""The pictures of the result page, as inline SVG. Every text that comes from data is escaped."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from markupsafe import Markup

from tasks.validate import grid
from tasks.validate.profile import ColumnProfile

_WIDE = 960.0
_BARS = 32
_CATEGORIES = 8
_SKEWED = 100
_TAIL = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """One bar of the volume chart."""

    day: date
    rows: int
    labelled: int
    mark: str


def volume(days: Sequence[Day]) -> Markup:
    """Rows a day, the labelled part of them solid, the data date in its own colour."""
    height, base, left = 190.0, 160.0, 56.0
    top = _round_up(max((day.rows for day in days), default=0) or 1)
    step = (_WIDE - left - 16) / max(1, len(days))
    width = max(2.0, min(34.0, step - 3))
    parts = _scale(top, left, base, 140.0)
    every = max(1, -(-len(days) // 12))
    for i, day in enumerate(days):
        x = left + i * step + (step - width) / 2
        whole, part = 140 * day.rows / top, 140 * day.labelled / top
        tip = Markup("<title>{}: {:,} rows, {:,} with a label{}</title>").format(
            f"{day.day:%a} {day.day}", day.rows, day.labelled, f" ({day.mark})" if day.mark else ""
        )
        parts.append(
            Markup('<g class="day {}">{}<rect class="hit" x="{:.1f}" y="10" width="{:.1f}" height="150"/>').format(
                day.mark, tip, left + i * step, step
            )
            + _bar("whole", x, base - whole, width, whole)
            + _bar("part", x, base - part, width, part)
            + Markup("</g>")
        )
        if (len(days) - 1 - i) % every == 0:
            parts.append(_text(x + width / 2, base + 18, f"{day.day:%d %b}", "middle", "axis"))
    return _svg(_WIDE, height, parts, "Rows by day")


def _round_up(value: float) -> float:
    """The next number for the end of an axis, so that half of it is round too."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 3, 4, 5, 6, 8, 10) if step * power >= value)


def _scale(top: float, left: float, base: float, height: float) -> list[Markup]:
    """Three light lines with their values."""
    parts = []
    for share in (0, 0.5, 1):
        y = base - height * share
        parts.append(
            Markup('<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>').format(left, _WIDE, y, y)
        )
        parts.append(_text(left - 8, y + 4, short(top * share), "end", "axis"))
    return parts


def drift(indices: Mapping[str, float], limit: float) -> Markup:
    """A bar for each feature, largest first, with the limit as a line."""
    ordered = sorted(indices.items(), key=lambda item: (-item[1], item[0]))
    left, row, width = 190.0, 24.0, _WIDE - 190 - 70
    top = max([limit * 1.25, *indices.values()])
    height = row * len(ordered) + 26
    x = left + width * limit / top
    parts = [
        Markup('<line class="limit" x1="{0:.1f}" x2="{0:.1f}" y1="18" y2="{1:.1f}"/>').format(x, height),
        _text(x, 12, f"limit {limit:g}", "middle", "axis"),
    ]
    for i, (name, value) in enumerate(ordered):
        y = 24 + i * row
        parts.append(_text(left - 10, y + 12, cut(name, 26), "end", "label"))
        parts.append(_bar("bad" if value > limit else "part", left, y, max(1.0, width * value / top), 14))
        parts.append(_text(left + width * value / top + 8, y + 12, f"{value:.3f}", "start", "axis"))
    return _svg(_WIDE, height, parts, "Population stability index by feature")


def column(today: ColumnProfile, reference: ColumnProfile) -> Markup:
    """A column of the data date (bars) against the reference (line, or thin bars for categories)."""
    if today.histogram or reference.histogram:
        return _numbers(today.histogram, reference.histogram)
    if today.values or reference.values:
        return _categories(today, reference)
    return Markup("")


def _numbers(today: dict[int, int], reference: dict[int, int]) -> Markup:
    cuts = _cuts(reference or today)
    ours, theirs = _shares(today, cuts), _shares(reference, cuts)
    top = max([*ours, *theirs, 1e-9])
    width, height, base = 300.0, 130.0, 104.0
    step = width / len(ours)
    parts = [Markup('<line class="grid" x1="0" x2="300" y1="104" y2="104"/>')]
    for i, share in enumerate(ours):
        tip = f"{short(cuts[i])} to {short(cuts[i + 1])}: {share:.1%} of the day, {theirs[i]:.1%} of the reference"
        parts.append(
            Markup("<g><title>{}</title>").format(tip)
            + Markup('<rect class="hit" x="{:.1f}" y="4" width="{:.1f}" height="100"/>').format(i * step, step)
            + _bar("part", i * step + 0.5, base - 96 * share / top, step - 1, 96 * share / top)
            + Markup("</g>")
        )
    if reference:
        line = " ".join(
            f"{i * step:.1f},{base - 96 * share / top:.1f} {(i + 1) * step:.1f},{base - 96 * share / top:.1f}"
            for i, share in enumerate(theirs)
        )
        parts.append(Markup('<polyline class="reference" points="{}"/>').format(line))
    parts.append(_text(0, 122, short(cuts[0]), "start", "axis"))
    parts.append(_text(width, 122, short(cuts[-1]), "end", "axis"))
    return _svg(width, height, parts, "Distribution")


def _cuts(histogram: dict[int, int]) -> list[float]:
    """Edges of the bars: the bulk of the rows, on a logarithmic scale where they span far."""
    rows = sum(histogram.values())
    inner, below = [], 0
    for number in sorted(histogram):
        if below <= rows * (1 - _TAIL) and below + histogram[number] >= rows * _TAIL:
            inner.append(number)
        below += histogram[number]
    low, high = grid.edges(inner[0])[0], grid.edges(inner[-1])[1]
    if low > 0 and high / low > _SKEWED:
        return [low * (high / low) ** (i / _BARS) for i in range(_BARS + 1)]
    if inner[0] >= 0 and low < high / _BARS:
        low = 0.0
    return [low + (high - low) * i / _BARS for i in range(_BARS + 1)]


def _shares(histogram: dict[int, int], cuts: Sequence[float]) -> list[float]:
    """Share of the rows in each bar; a grid bin is spread evenly over the bars that it touches."""
    rows = sum(histogram.values()) or 1
    shares = [0.0] * (len(cuts) - 1)
    for number, count in histogram.items():
        low, high = grid.edges(number)
        for i, (left, right) in enumerate(pairwise(cuts)):
            overlap = min(high, right) - max(low, left)
            if overlap > 0:
                shares[i] += count / rows * overlap / (high - low)
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
        tip = f"{name}: {a:.1%} of the day, {b:.1%} of the reference"
        parts.append(
            Markup("<g><title>{}</title>").format(tip)
            + _text(92, y + 13, cut(name, 14), "end", "label")
            # The rest may be most of the rows: its bars end where those of the longest value do.
            + _bar("part", 100, y + 2, max(0.5, 150 * min(1.0, a / top)), 9)
            + _bar("against", 100, y + 12, max(0.5, 150 * min(1.0, b / top)), 4)
            + _text(108 + 150 * min(1.0, max(a, b) / top), y + 13, f"{a:.1%}", "start", "axis")
            + Markup("</g>")
        )
    return _svg(300, 22.0 * len(pairs) + 2, parts, "Shares of values")


def missing(share: float, reference: float) -> Markup:
    """A small bar of a share of missing rows, with a tick where the reference has it."""
    parts = [
        Markup('<rect class="track" x="0" y="3" width="100" height="8" rx="2"/>'),
        _bar("part" if share <= max(0.05, 2 * reference) else "bad", 0, 3, 100 * share, 8),
        Markup('<rect class="tick" x="{:.1f}" y="0" width="2" height="14"/>').format(min(98.0, 100 * reference)),
    ]
    return _svg(100, 14, parts, f"{share:.2%} missing")


def _bar(kind: str, x: float, y: float, width: float, height: float) -> Markup:
    return Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="1.5"/>').format(
        kind, x, y, max(0.0, width), max(0.0, height)
    )


def _text(x: float, y: float, words: str, anchor: str, kind: str) -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(kind, x, y, anchor, words)


def _svg(width: float, height: float, parts: Sequence[Markup], name: str) -> Markup:
    return Markup('<svg viewBox="0 0 {:g} {:g}" role="img" aria-label="{}">{}</svg>').format(
        width, height, name, Markup("").join(parts)
    )


def short(value: float) -> str:
    """A number for an axis: 12.3k."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g}{unit}"
    return f"{value:.4g}"


def cut(words: str, most: int) -> str:
    """Words that fit."""
    return words if len(words) <= most else f"{words[: most - 1]}…"
