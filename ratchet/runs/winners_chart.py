"""The picture "what we would have promoted": gains by date with their bounds, and who would have been in office."""

from collections.abc import Callable, Sequence

from markupsafe import Markup

from ratchet.contracts.quantities import percent
from ratchet.pages.svg import WIDE, bar, cut, dot, group, line, round_up, svg, text
from ratchet.pages.words import interval
from ratchet.runs.run_index import RunLine

_LEFT, _TOP, _TALL, _STEPS = 64.0, 12.0, 170.0, 18.0
_MOST_DATES = 12
_FEWEST = 2
"""One date has no course."""
_LETTER = 7.0
"""The width of a letter of a label."""


def chart(lines: Sequence[RunLine]) -> Markup | None:
    """The picture of the dates of chains that have a verdict; None where there are fewer than two."""
    shown = [each for each in lines if each.gain is not None and each.chain]
    if len(shown) < _FEWEST:
        return None
    low, high = _range(shown)
    step = (WIDE - _LEFT - 12) / len(shown)
    base = _TOP + _TALL

    def height(value: float) -> float:
        return base - _TALL * (value - low) / (high - low)

    parts = _scale(low, high, height)
    every = -(-len(shown) // _MOST_DATES)
    for index, each in enumerate(shown):
        x = _LEFT + (index + 0.5) * step
        assert each.gain
        said = f"{each.day}: {each.standing}, {interval(each.gain)} over {each.against or 'a constant scorer'}"
        span = line("span", x, height(each.gain.low), x, height(each.gain.high))
        parts.append(
            group("good" if each.would_promote else "", said, span, dot("dot", x, height(each.gain.value), 4.5))
        )
        if (len(shown) - 1 - index) % every == 0:
            parts.append(text(x, base + _STEPS + 34, f"{each.day:%d %b}", "middle"))
    parts += _in_office(shown, step, base + 12)
    return svg(WIDE, base + _STEPS + 42, parts, "What we would have promoted: gains by date")


def in_office(lines: Sequence[RunLine]) -> list[str]:
    """For each date what it would have left in production; empty while that is nothing."""
    found, office = [], ""
    for each in lines:
        office = f"{each.day:%d %b}" if each.would_promote else office
        found.append(office)
    return found


def _range(lines: Sequence[RunLine]) -> tuple[float, float]:
    bounds = [bound for each in lines if each.gain for bound in (each.gain.low, each.gain.high)]
    low, high = min(*bounds, 0.0), max(*bounds, 0.0)
    pad = 0.06 * (high - low) or 0.01
    return low - pad, high + pad


def _scale(low: float, high: float, height: Callable[[float], float]) -> list[Markup]:
    parts = []
    step = round_up((high - low) / 5, (1, 2, 5, 10))
    place = -(-low // step)
    while place * step <= high:
        y = height(place * step)
        parts.append(line("axis-zero" if place == 0 else "grid", _LEFT, y, WIDE, y))
        parts.append(text(_LEFT - 8, y + 4, percent(place * step, signed=True), "end"))
        place += 1
    return parts


def _in_office(lines: Sequence[RunLine], step: float, top: float) -> list[Markup]:
    """A bar for each model, from the date that it won on to the next winner's."""
    parts: list[Markup] = [text(_LEFT - 8, top + 13, "in office", "end")]
    office = in_office(lines)
    starts = [index for index, name in enumerate(office) if name and (not index or office[index - 1] != name)]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        left, width = _LEFT + start * step, (end - start) * step - 2
        name = f"{lines[start].day:%d %b}"
        parts.append(group("good", f"the model of {lines[start].day}", bar("office", left, top, width, _STEPS)))
        if len(name) * _LETTER <= width:
            parts.append(text(left + width / 2, top + 13, cut(name, 12), "middle", "label"))
    return parts
