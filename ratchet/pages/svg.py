"""Pictures as inline SVG: shapes, scales and axes. The same values give the same bytes, and every text is escaped.

A class names a colour of `page.css`. Coordinates are in units of the picture's own view box.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from markupsafe import Markup

from ratchet.contracts.judgements import Interval
from ratchet.contracts.quantities import percent
from ratchet.pages.words import interval

WIDE = 960.0
"""Width of a picture that fills the page. On a narrow screen it scrolls, so that its text can still be read."""

_LEFT = 56.0
_MOST_DATES = 12

Anchor = Literal["start", "middle", "end"]


def svg(width: float, height: float, parts: Sequence[Markup], name: str) -> Markup:
    """A picture. name: what it shows, for those who cannot see it."""
    drawn = Markup('<svg viewBox="0 0 {:g} {:g}" role="img" aria-label="{}">{}</svg>').format(
        width, height, name, Markup("").join(parts)
    )
    return Markup('<div class="scroll wide">{}</div>').format(drawn) if width >= WIDE else drawn


def group(kind: str, title: str, *parts: Markup) -> Markup:
    """Shapes of one class with one tool tip."""
    return Markup('<g class="%s"><title>%s</title>%s</g>') % (kind, title, Markup().join(parts))


def text(x: float, y: float, words: str, anchor: Anchor, kind: str = "axis") -> Markup:
    """A line of text on the base line y."""
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(kind, x, y, anchor, words)


def line(kind: str, x: float, y: float, to_x: float, to_y: float) -> Markup:
    """A straight line."""
    return Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(kind, x, y, to_x, to_y)


def polyline(kind: str, points: Sequence[tuple[float, float]]) -> Markup:
    """A line through points."""
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return Markup('<polyline class="{}" points="{}"/>').format(kind, drawn)


def dot(kind: str, x: float, y: float, size: float) -> Markup:
    """A full circle with the radius `size`."""
    return Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="{:g}"/>').format(kind, x, y, size)


def bar(kind: str, x: float, y: float, width: float, height: float) -> Markup:
    """A rectangle. A negative size is drawn as none."""
    size = (x, y, max(0.0, width), max(0.0, height))
    return Markup('<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="1.5"/>') % (kind, *size)


def cut(words: str, most: int) -> str:
    """Words that fit: of longer ones the beginning."""
    return words if len(words) <= most else f"{words[: most - 1]}…"


def short(value: float) -> str:
    """A number for an axis: 8,000, 12.3k."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g}{unit}"
    return f"{value:,.4g}"


def round_up(value: float, steps: Sequence[int] = (1, 2, 3, 4, 5, 6, 8, 10)) -> float:
    """The next round number above zero. With the usual steps its half is round too, for the top of an axis."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in steps if step * power >= value)


def anchor(x: float, wide: float = WIDE) -> Anchor:
    """On which side of x a text has room."""
    return "start" if x < 0.12 * wide else "end" if x > 0.88 * wide else "middle"


class GainAxis:
    """A horizontal axis of relative gains, a little wider than the values."""

    def __init__(self, values: Sequence[float], left: float, right: float) -> None:
        low, high = min(values), max(values)
        pad = 0.08 * (high - low) or 0.01
        self._low, self._high = low - pad, high + pad
        self._left, self._right = left, right

    def __call__(self, value: float) -> float:
        """The place of a gain."""
        share = (value - self._low) / (self._high - self._low)
        return self._left + share * (self._right - self._left)

    def ticks(self, y: float, top: float) -> list[Markup]:
        """Light lines from top to y at round gains, with their names below."""
        parts = []
        step = round_up((self._high - self._low) / 6, (1, 2, 5, 10))
        for place in range(math.ceil(self._low / step), math.floor(self._high / step) + 1):
            x = self(place * step)
            parts.append(line("axis-zero" if place == 0 else "grid", x, top, x, y))
            parts.append(text(x, y + 16, percent(place * step, signed=True), "middle"))
        return parts

    def draw(self, gain: Interval, y: float, size: float, *, kind: str, name: str = "") -> Markup:
        """A gain as a dot, its bounds as the ends of a bar."""
        return group(
            kind,
            f"{name}: {interval(gain)}" if name else interval(gain),
            line("span", self(gain.low), y, self(gain.high), y),
            dot("dot", self(gain.value), y, size),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DayBar:
    """What is drawn of a day: bars on top of each other, each with its class and its rows, and one tool tip."""

    day: date
    title: str
    bars: tuple[tuple[str, int], ...]
    kind: str = ""


def day_chart(days: Sequence[DayBar]) -> Markup:
    """Bars by day, a scale of rows on the left, and below them as many dates as there is room for."""
    base, tall = 150.0, 130.0
    top = round_up(max((rows for day in days for _, rows in day.bars), default=0) or 1)
    step = (WIDE - _LEFT - 20) / max(1, len(days))
    width = max(2.0, min(34.0, step - 3))
    every = -(-len(days) // _MOST_DATES) or 1
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = base - tall * share
        parts += [line("grid", _LEFT, y, WIDE, y), text(_LEFT - 8, y + 4, short(top * share), "end")]
    for index, day in enumerate(days):
        left = _LEFT + index * step
        drawn = [(kind, tall * rows / top) for kind, rows in day.bars]
        bars = [bar(kind, left + (step - width) / 2, base - high, width, high) for kind, high in drawn]
        # The tip is there above a low bar too.
        parts.append(group(day.kind, day.title, bar("hit", left, base - tall, step, tall), *bars))
        if (len(days) - 1 - index) % every == 0:
            parts.append(text(left + step / 2, base + 18, f"{day.day:%d %b}", "middle"))
    return svg(WIDE, base + 28, parts, "Rows by day")
