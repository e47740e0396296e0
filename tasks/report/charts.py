"""The charts of a run's page."""

from collections.abc import Mapping, Sequence
from datetime import date
from math import ceil, floor

from markupsafe import Markup

from ratchet.contracts.judgements import Proof, SliceJudgement
from ratchet.contracts.quantities import percent
from ratchet.contracts.summaries import Evaluation, Judgement
from ratchet.pages.svg import (
    WIDE,
    DayBar,
    GainAxis,
    anchor,
    bar,
    cut,
    day_chart,
    dot,
    group,
    line,
    polyline,
    svg,
    text,
)
from ratchet.pages.words import count, interval, seconds

_MOST_DOTS, _DOT = 40, 3.5
ROLES = {
    "unused": "in the window",
    "train": "training",
    "valid": "early stopping",
    "holdout": "held out",
    "excluded": "excluded",
}
"""The use of a day, by its class in a chart."""


_KINDS: Mapping[Proof, str] = {"passed": "good", "failed": "bad", "not-provable": ""}
"""The colour of a slice, by what is proven of it."""


def gain(judged: Judgement) -> Markup:
    """The gain with its bounds, and the margin that its lower bound must exceed."""
    found, margin = judged.gain, judged.min_gain
    axis = GainAxis([found.low, found.high, margin, 0.0], 10, WIDE - 10)
    mood = "good" if found.low > margin else "bad" if found.high < margin else ""
    x = axis(margin)
    low = axis(found.low)
    parts = [
        bar("beyond", x, 22, WIDE - x, 62),
        *axis.ticks(84, 22),
        line("margin", x, 18, x, 84),
        text(x, 12, f"required: more than {percent(margin)}", anchor(x)),
        axis.draw(found, 56, 7, kind=mood),
        text(low, 44, percent(found.low, signed=True), "end" if low > 70 else "start"),  # noqa: PLR2004 - room for it
        text(axis(found.value), 40, percent(found.value, signed=True), "middle", "label"),
    ]
    return svg(WIDE, 106, parts, f"Gain {interval(found)}")


def slices(found: Sequence[SliceJudgement], max_loss: float) -> Markup:
    """The gain on each value of a column with its bounds, and the largest loss allowed."""
    left, right, row = 250.0, WIDE - 210, 24.0
    values = [bound for one in found if one.gain for bound in (one.gain.low, one.gain.high)]
    axis = GainAxis([*values, 0.0, -max_loss], left, right)
    bottom = 26 + row * len(found)
    limit = axis(-max_loss)
    parts = [
        *axis.ticks(bottom, 20),
        line("limit", limit, 16, limit, bottom),
        text(limit, 11, f"allowed: {percent(-max_loss)}", anchor(limit)),
    ]
    for index, one in enumerate(found):
        y = 26 + row * index + row / 2
        parts.append(
            text(left - 14, y + 4, cut(f"{one.column} = {one.value}" if one.value else one.column, 30), "end", "label")
        )
        parts.append(text(WIDE, y + 4, count(one.rows, "row"), "end"))
        if one.gain is None:
            parts.append(text(axis(0) + 10, y + 4, "not measurable, so not provable", "start"))
            continue
        parts.append(axis.draw(one.gain, y, 5, kind=_KINDS[one.outcome], name=f"{one.name}: {one.outcome}"))
        parts.append(text(right + 14, y + 4, percent(one.gain.value, signed=True), "start", "label"))
    return svg(WIDE, bottom + 24, parts, "Gain by slice")


def losses(history: Sequence[Evaluation], best: int) -> Markup:
    """Training and validation loss by epoch. best: the number of the evaluation that was kept, from 1."""
    return _curves(
        "Loss by epoch",
        {
            "": [(each.epoch, each.valid_loss) for each in history if each.valid_loss is not None],
            "second": [(each.epoch, each.loss) for each in history],
        },
        history[best - 1].epoch,
    )


def metric(history: Sequence[Evaluation], best: int) -> Markup:
    """The metric on the validation days by epoch; empty without validation days."""
    points = [(each.epoch, each.valid_metric) for each in history if each.valid_metric is not None]
    return _curves("Metric by epoch", {"": points}, history[best - 1].epoch) if points else Markup("")


def days(rows: Mapping[date, int], roles: Mapping[date, str]) -> Markup:
    """Rows by day, coloured by the use of the day."""
    used = {day: roles.get(day, "unused") for day in rows}
    return day_chart(
        [
            DayBar(
                day=day,
                title=f"{day}: {count(rows[day], 'row')}, {ROLES[used[day]]}",
                bars=((used[day], rows[day]),),
            )
            for day in sorted(rows)
        ]
    )


def stage_bars(taken: Sequence[tuple[str, float, str]]) -> Markup:
    """(stage, seconds, built | cached | failed) as bars in the order of the run."""
    total = sum(one[1] for one in taken) or 1.0
    parts, x = [], 0.0
    for name, value, kind in taken:
        width = WIDE * value / total
        parts.append(group("", f"{name}: {seconds(value)}", bar(kind, x, 0, width - 2, 22)))
        if width > 9 * len(name):
            parts.append(text(x + 2, 38, name, "start"))
        x += width
    return svg(WIDE, 44, parts, "Time by stage")


def _curves(name: str, lines: Mapping[str, Sequence[tuple[float, float]]], best: float) -> Markup:
    points = [point for points in lines.values() for point in points]
    low, high = min(value for _, value in points), max(value for _, value in points)
    first, last = min(epoch for epoch, _ in points), max(epoch for epoch, _ in points)
    left, right, base, tall = 58.0, 450.0, 170.0, 150.0
    span = (high - low) or abs(high) or 1.0

    def place(epoch: float, value: float) -> tuple[float, float]:
        x = left + (right - left) * ((epoch - first) / (last - first) if last > first else 0.5)
        return x, base - tall * (0.05 + 0.9 * (value - low) / span)

    parts = []
    for value in dict.fromkeys((low, (low + high) / 2, high)):
        y = place(first, value)[1]
        parts += [line("grid", left, y, right, y), text(left - 8, y + 4, f"{value:.4g}", "end")]
    whole = range(ceil(first), floor(last) + 1, max(1, -(-(floor(last) - ceil(first) + 1) // 12)))
    parts += [text(place(epoch, low)[0], base + 18, f"{epoch:g}", "middle") for epoch in whole or (first, last)]
    x = place(best, low)[0]
    parts += [line("best-epoch", x, base - tall, x, base), text(x, base - tall - 4, "best", anchor(x, 460))]
    for kind, curve in lines.items():
        parts.append(polyline(f"line {kind}", [place(*point) for point in curve]))
        parts += [
            group("", f"epoch {epoch:g}: {value:.5g}", dot(f"point {kind}", *place(epoch, value), _DOT))
            for epoch, value in curve
            if len(curve) <= _MOST_DOTS
        ]
    return svg(460, 196, parts, name)
