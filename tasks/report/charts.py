"""The pictures of a run's page, as inline SVG. Every text that comes from data is escaped."""

import math
from collections.abc import Mapping, Sequence
from datetime import date

from markupsafe import Markup

from ratchet.contracts.summaries import Epoch, Judgement, SliceJudgement
from ratchet.pages.words import interval, percent, seconds

_WIDE = 960.0


class _Axis:
    """A horizontal axis of relative gains: from values to places."""

    def __init__(self, values: Sequence[float], left: float, right: float) -> None:
        low, high = min(values), max(values)
        pad = 0.08 * (high - low) or 0.01
        self._low, self._high = low - pad, high + pad
        self._left, self._right = left, right

    def __call__(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low)
        return self._left + share * (self._right - self._left)

    def ticks(self, y: float, top: float) -> list[Markup]:
        """Light lines from top to y at round values, with their names below."""
        parts = []
        step = _round_step((self._high - self._low) / 6)
        for place in range(math.ceil(self._low / step), math.floor(self._high / step) + 1):
            x = self(place * step)
            parts.append(_line("axis-zero" if place == 0 else "grid", x, top, x, y))
            parts.append(_text(x, y + 16, percent(place * step) if place else "0", "middle"))
        return parts


def gain(judged: Judgement) -> Markup:
    """The gain with its interval, against the margin that its lower bound has to pass."""
    found, margin = judged.gain, judged.min_gain
    axis = _Axis([found.low, found.high, margin, 0.0], 10, _WIDE - 10)
    mood = "good" if found.low > margin else "bad" if found.high < margin else ""
    x = axis(margin)
    parts = [
        Markup('<rect class="beyond" x="{:.1f}" y="22" width="{:.1f}" height="62"/>').format(x, _WIDE - x),
        *axis.ticks(84, 22),
        _line("margin", x, 18, x, 84),
        _text(x, 12, f"needed: more than {percent(margin)}", _anchor(x)),
        Markup('<g class="{}"><title>{}</title>').format(mood, interval(found)),
        _line("span", axis(found.low), 56, axis(found.high), 56),
        _dot(axis(found.value), 56, 7),
        Markup("</g>"),
        _text(axis(found.low), 44, percent(found.low), "end" if axis(found.low) > 70 else "start"),  # noqa: PLR2004 - room for it
        _text(axis(found.value), 40, percent(found.value), "middle", "label"),
    ]
    return _svg(_WIDE, 106, parts, f"Gain {interval(found)}")


def slices(found: Sequence[SliceJudgement], max_loss: float) -> Markup:
    """The gain on each value of a column with its interval, against the loss that is allowed."""
    left, right, row = 250.0, _WIDE - 210, 24.0
    values = [bound for one in found if one.gain for bound in (one.gain.low, one.gain.high)]
    axis = _Axis([*values, 0.0, -max_loss], left, right)
    bottom = 26 + row * len(found)
    limit = axis(-max_loss)
    parts = [
        *axis.ticks(bottom, 20),
        _line("limit", limit, 16, limit, bottom),
        _text(limit, 11, f"allowed: {percent(-max_loss)}", _anchor(limit)),
    ]
    for index, one in enumerate(found):
        y = 26 + row * index + row / 2
        parts.append(_text(left - 14, y + 4, _cut(f"{one.column} = {one.value}", 34), "end", "label"))
        parts.append(_text(_WIDE, y + 4, f"{one.rows:,} rows", "end"))
        if one.gain is None:
            parts.append(_text(axis(0) + 10, y + 4, "not measurable", "start"))
            continue
        parts += [
            Markup('<g class="{}"><title>{}: {}</title>').format(
                "" if one.passed else "bad", one.value, interval(one.gain)
            ),
            _line("span", axis(one.gain.low), y, axis(one.gain.high), y),
            _dot(axis(one.gain.value), y, 5),
            Markup("</g>"),
            _text(right + 14, y + 4, percent(one.gain.value), "start", "label"),
        ]
    return _svg(_WIDE, bottom + 24, parts, "Gain by slice")


def losses(epochs: Sequence[Epoch], best: int) -> Markup:
    """Training and validation loss by epoch."""
    return _curves(
        "Loss by epoch",
        {
            "": [(epoch.epoch, epoch.valid_loss) for epoch in epochs if epoch.valid_loss is not None],
            "second": [(epoch.epoch, epoch.loss) for epoch in epochs],
        },
        best,
    )


def metric(epochs: Sequence[Epoch], best: int) -> Markup:
    """The metric on the validation days by epoch; nothing without validation days."""
    points = [(epoch.epoch, epoch.valid_metric) for epoch in epochs if epoch.valid_metric is not None]
    return _curves("Metric by epoch", {"": points}, best) if points else Markup("")


def days(rows: Mapping[date, int], roles: Mapping[date, str]) -> Markup:
    """Rows by day, coloured by what the day was used for."""
    left, base, high = 56.0, 150.0, 130.0
    most = _round_top(max(rows.values(), default=0) or 1)
    step = (_WIDE - left - 20) / max(1, len(rows))
    width = max(2.0, min(34.0, step - 3))
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = base - high * share
        parts += [_line("grid", left, y, _WIDE, y), _text(left - 8, y + 4, f"{most * share:,.0f}", "end")]
    every = max(1, -(-len(rows) // 12))
    for index, (day, count) in enumerate(sorted(rows.items())):
        x, tall = left + index * step + (step - width) / 2, high * count / most
        role = roles.get(day, "unused")
        parts.append(
            Markup(
                '<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="1.5">'
                "<title>{}: {:,} rows, {}</title></rect>"
            ).format(role, x, base - tall, width, tall, day, count, _ROLES.get(role, role))
        )
        if (len(rows) - 1 - index) % every == 0:
            parts.append(_text(x + width / 2, base + 18, f"{day:%d %b}", "middle"))
    return _svg(_WIDE, base + 28, parts, "Rows by day")


_ROLES = {
    "unused": "in the window",
    "train": "trained on",
    "valid": "for early stopping",
    "holdout": "held out",
    "excluded": "left out",
}


def stage_bars(taken: Sequence[tuple[str, float, str]]) -> Markup:
    """(stage, seconds, built | cached | failed) as bars one after the other, as the run went."""
    total = sum(one[1] for one in taken) or 1.0
    parts, x = [], 0.0
    for name, value, kind in taken:
        width = _WIDE * value / total
        parts.append(
            Markup(
                '<rect class="{}" x="{:.1f}" y="0" width="{:.1f}" height="22" rx="2"><title>{}: {}</title></rect>'
            ).format(kind, x, max(0.0, width - 2), name, seconds(value))
        )
        if width > 9 * len(name):
            parts.append(_text(x + 2, 38, name, "start"))
        x += width
    return _svg(_WIDE, 44, parts, "Time by stage")


def _curves(name: str, lines: Mapping[str, Sequence[tuple[int, float]]], best: int) -> Markup:
    points = [point for line in lines.values() for point in line]
    low, high = min(value for _, value in points), max(value for _, value in points)
    first, last = min(epoch for epoch, _ in points), max(epoch for epoch, _ in points)
    left, right, base, tall = 58.0, 450.0, 170.0, 150.0
    span = (high - low) or abs(high) or 1.0

    def place(epoch: int, value: float) -> tuple[float, float]:
        x = left + (right - left) * ((epoch - first) / (last - first) if last > first else 0.5)
        return x, base - tall * (0.05 + 0.9 * (value - low) / span)

    parts = []
    for value in dict.fromkeys((low, (low + high) / 2, high)):
        y = place(first, value)[1]
        parts += [_line("grid", left, y, right, y), _text(left - 8, y + 4, f"{value:.4g}", "end")]
    every = max(1, -(-(last - first + 1) // 12))
    parts += [_text(place(n, low)[0], base + 18, str(n), "middle") for n in range(first, last + 1, every)]
    x = place(best, low)[0]
    parts += [_line("best-epoch", x, base - tall, x, base), _text(x, base - tall - 4, "kept", _anchor(x, 460))]
    for kind, line in lines.items():
        drawn = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in line)
        parts.append(Markup('<polyline class="line {}" points="{}"/>').format(kind, drawn))
        parts += [
            Markup(
                '<circle class="point {}" cx="{:.1f}" cy="{:.1f}" r="3.5"><title>epoch {}: {:.5g}</title></circle>'
            ).format(kind, *place(*point), *point)
            for point in line
        ]
    return _svg(460, 196, parts, name)


def _round_step(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _round_top(value: float) -> float:
    """The next number for the end of an axis, so that half of it is round too."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 3, 4, 5, 6, 8, 10) if step * power >= value)


def _anchor(x: float, wide: float = _WIDE) -> str:
    return "start" if x < 0.12 * wide else "end" if x > 0.88 * wide else "middle"


def _line(kind: str, x: float, y: float, to_x: float, to_y: float) -> Markup:
    return Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(kind, x, y, to_x, to_y)


def _dot(x: float, y: float, size: float) -> Markup:
    return Markup('<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="{:g}"/>').format(x, y, size)


def _text(x: float, y: float, words: str, anchor: str, kind: str = "axis") -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(kind, x, y, anchor, words)


def _svg(width: float, height: float, parts: Sequence[Markup], name: str) -> Markup:
    return Markup('<svg viewBox="0 0 {:g} {:g}" role="img" aria-label="{}">{}</svg>').format(
        width, height, name, Markup("").join(parts)
    )


def _cut(words: str, most: int) -> str:
    return words if len(words) <= most else f"{words[: most - 1]}…"
