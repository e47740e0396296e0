"""The picture of the page on the verdict: false promotions of now against before in each cell, and the power."""

from collections.abc import Iterator, Sequence

from benchmarks.nights import CONFIDENCE, Figures
from ratchet.contracts.quantities import percent

WIDE, HIGH = 960, 364
_TOP, _FLOOR, _LEFT, _GAP, _RIGHT = 56, 330, 52, 600, 940
_MOST = 0.5
"""The top of the left axis; a cell above it is drawn there."""
_NOW, _BEFORE, _INK, _GRID = "#1565c0", "#d9822b", "#333", "#ddd"
_FAMILIES = {
    "rmse": "rmse",
    "mae": "mae",
    "logloss": "logloss",
    "ndcg@10": "ndcg",
    "auc": "auc",
    "pr_auc": "pr",
    "ece": "ece",
}
_CURVES = {"ndcg@10": "bad order in 0%, 300 units", "mae": "skew 0.5, 1000 units"}


def draw(found: Sequence[Figures]) -> str:
    """The figures as an SVG file; the same figures give the same bytes."""
    shapes = [*_promotions([one for one in found if one.named and not one.better and one.tries == 1]), *_power(found)]
    box = f'viewBox="0 0 {WIDE} {HIGH}" font-family="sans-serif" font-size="12" fill="{_INK}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box}>',
        "<title>False promotions in each cell of the benchmark, and the power, now and before</title>",
        f'<rect width="{WIDE}" height="{HIGH}" fill="#fff"/>',
        *shapes,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _promotions(cells: Sequence[Figures]) -> Iterator[str]:
    """A column of dots for each cell, those of a metric beside each other, by what the method of before did."""
    families = {name: sorted((one for one in cells if one.metric == name), key=_by_before) for name in _FAMILIES}
    step = (_GAP - 70 - _LEFT - 10 * len(families)) / max(1, sum(map(len, families.values())))
    yield _text(_LEFT, 20, "False promotions where the true gain is the margin, one column a cell", "start", size=14)
    for share in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5):
        yield _line(_LEFT, _height(share), _GAP - 70, _height(share), _GRID)
        yield _text(_LEFT - 6, _height(share) + 4, percent(share), "end")
    yield _line(_LEFT, _height(1 - CONFIDENCE), _GAP - 70, _height(1 - CONFIDENCE), _INK, dash="4 3")
    yield _text(_GAP - 66, _height(1 - CONFIDENCE) + 4, percent(1 - CONFIDENCE), "start")
    x = float(_LEFT + 5)
    for name, ordered in families.items():
        middle = x + step * len(ordered) / 2
        yield _text(middle, _FLOOR + 18, _FAMILIES[name], "middle")
        for one in ordered:
            yield _dot(x, _height(one.before), _BEFORE)
            if one.judged:
                yield _dot(x, _height(one.promoted), _NOW)
            x += step
        x += 10
    yield _dot(_LEFT + 6, 36, _BEFORE)
    yield _text(_LEFT + 14, 40, "before: percentiles", "start")
    yield _dot(_LEFT + 146, 36, _NOW)
    yield _text(_LEFT + 154, 40, "now, where the cell gives a verdict", "start")


def _power(found: Sequence[Figures]) -> Iterator[str]:
    """The share of nights that promote, by the true gain."""
    curves = {
        name: sorted(
            (one for one in found if one.metric == name and one.place == place and one.tries == 1), key=_by_gain
        )
        for name, place in _CURVES.items()
    }
    furthest = max((one.gain for points in curves.values() for one in points), default=0.2)

    def right(gain: float) -> float:
        return _GAP + (_RIGHT - _GAP) * gain / furthest

    yield _text(_GAP, 20, "Promotions by true gain", "start", size=14)
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        yield _line(_GAP, _height(share, 1.0), _RIGHT, _height(share, 1.0), _GRID)
        yield _text(_GAP - 6, _height(share, 1.0) + 4, percent(share), "end")
    for tick in range(5):
        gain = furthest * tick / 4
        yield _text(right(gain), _FLOOR + 18, percent(gain), "middle")
    for name, points in curves.items():
        for colour, dash, shares in (
            (_BEFORE, "5 4", [one.before for one in points]),
            (_NOW, "", [one.promoted for one in points]),
        ):
            corners = " ".join(
                f"{right(one.gain):.1f},{_height(share, 1.0):.1f}" for one, share in zip(points, shares, strict=True)
            )
            dashes = f' stroke-dasharray="{dash}"' if dash else ""
            yield f'<polyline points="{corners}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
        if points:
            middle = points[len(points) // 2]
            words = f"{name}, {middle.place.rpartition(', ')[2]}"
            yield _text(right(middle.gain) + 8, _height(middle.promoted, 1.0) + 16, words, "start")


def _by_before(one: Figures) -> tuple[float, str]:
    return one.before, one.place


def _by_gain(one: Figures) -> float:
    return one.gain


def _height(share: float, most: float = _MOST) -> float:
    return _FLOOR - (_FLOOR - _TOP) * min(share / most, 1.0)


def _text(x: float, y: float, words: str, anchor: str, size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{words}</text>'


def _line(x: float, y: float, to_x: float, to_y: float, colour: str, dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{colour}"{dashes}/>'


def _dot(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{colour}"/>'
