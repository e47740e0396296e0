"""A check of a gate as a page that needs nothing else: power curve, false promotions, slices, warnings."""

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from ratchet.contracts.quantities import percent
from ratchet.pages import template
from ratchet.pages.svg import WIDE, GainAxis, anchor, bar, group, line, polyline, svg, text
from ratchet.verdict.gate_check.in_words import answer, share
from ratchet.verdict.gate_check.outcome import GateCheck, Power, Rate

_TEMPLATE = Path(__file__).with_name("gate_check.html")
_LEFT, _TOP, _TALL, _LABEL = 56.0, 62.0, 220.0, 18.0
_NAMES, _ROW = 330.0, 30.0
_USUAL = 0.8


def page(pipeline: str, found: GateCheck) -> str:
    """HTML. The same figures give the same bytes."""
    return template.render(
        _TEMPLATE,
        pipeline=pipeline,
        found=found,
        answer=answer(found).partition(": ")[2],
        share=share,
        mood="good" if found.passed else "bad",
        power=_power(found.power, found.min_gain) if found.power else None,
        rates=_rates(found.rates),
    )


def _power(power: Power, margin: float) -> Markup:
    """The share of promoted nights over the true gain, with the margin, the visible gain and that of the run."""
    base = _TOP + _TALL
    shown = [point.gain for point in power.points]
    inside = shown[0] <= power.observed <= shown[-1]
    axis = GainAxis(shown, _LEFT, WIDE - 10)

    def y(value: float) -> float:
        return base - _TALL * value

    parts = axis.ticks(base, _TOP)
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts += [line("grid", _LEFT, y(value), WIDE, y(value)), text(_LEFT - 8, y(value) + 4, f"{value:.0%}", "end")]
    marks = [("margin", margin, "margin"), *([("axis-zero", power.observed, "this run")] if inside else [])]
    if power.visible is not None and power.visible <= shown[-1]:
        marks.append(("best-epoch", power.visible, "seen on 80 % of nights"))
        parts.append(line("best-epoch", _LEFT, y(_USUAL), axis(power.visible), y(_USUAL)))
    for place, (kind, gain, name) in enumerate(marks):
        x = axis(gain)
        words = f"{name} {percent(round(gain, 4), signed=True)}"
        parts += [
            line(kind, x, _LABEL * place + 16, x, base),
            text(x, _LABEL * place + 12, words, anchor(x), "label"),
        ]
    parts.append(polyline("line", [(axis(point.gain), y(point.share)) for point in power.points]))
    return svg(WIDE, base + 28, parts, "Power: the share of nights that promote, by true gain")


def _rates(rates: Sequence[Rate]) -> Markup:
    """A bar for each rate, and the level that it must not exceed."""
    top = max(*(rate.share for rate in rates), *(rate.limit for rate in rates)) * 1.15

    def x(value: float) -> float:
        return _NAMES + (WIDE - _NAMES - 60) * value / top

    parts = []
    for place, rate in enumerate(rates):
        y = place * _ROW
        parts += [
            text(_NAMES - 12, y + 20, rate.name, "end", "label"),
            group(
                "failed" if rate.failed else "holdout",
                f"{rate.meaning}: {rate.count:,} of {rate.nights:,} nights",
                bar("track", _NAMES, y + 6, x(top) - _NAMES, _ROW - 12),
                bar("failed" if rate.failed else "holdout", _NAMES, y + 6, x(rate.share) - _NAMES, _ROW - 12),
            ),
            text(x(rate.share) + 6, y + 20, share(rate.share), "start", "label"),
        ]
    level, high = x(rates[0].level), len(rates) * _ROW
    parts += [
        line("limit", level, 0, level, high + 4),
        text(level, high + 20, f"allowed {share(rates[0].level)}", "middle"),
    ]
    return svg(WIDE, high + 28, parts, "False promotions against the level of the gate")
