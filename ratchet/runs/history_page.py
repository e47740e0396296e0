"""The nights of a pipeline as a page that needs nothing else: a line for each date, its gain as a picture.

Built when it is asked for, so that it is never behind a backfill that is still running.
"""

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from ratchet.pages import template
from ratchet.pages.svg import GainAxis, line, svg
from ratchet.pages.words import interval
from ratchet.runs.run_index import RunLine
from ratchet.runs.winners_chart import chart

_TEMPLATE = Path(__file__).with_name("nights.html")
_MOODS = {"promote": "good", "inconclusive": "warn", "reject": "bad", "failed": "bad", "unfinished": "warn"}
_WIDTH, _HEIGHT = 220.0, 18.0


def page(pipeline: str, lines: Sequence[RunLine], *, undelivered: Sequence[str] = ()) -> str:
    """HTML. The same lines give the same bytes. undelivered: alerts that reached nobody, a line each."""
    bounds = [bound for night in lines if night.gain for bound in (night.gain.low, night.gain.high)]
    axis = GainAxis([*bounds, 0.0], 0, _WIDTH)

    def picture(night: RunLine) -> Markup:
        assert night.gain
        zero = line("axis-zero", axis(0), 0, axis(0), _HEIGHT)
        drawn = axis.draw(night.gain, _HEIGHT / 2, 5, kind="good" if night.would_promote else "")
        return svg(_WIDTH, _HEIGHT, [zero, drawn], interval(night.gain))

    return template.render(
        _TEMPLATE,
        chart=chart(lines),
        pipeline=pipeline,
        lines=lines,
        undelivered=undelivered,
        counts=_counts(lines),
        moods=_MOODS,
        picture=picture,
    )


def in_words(lines: Sequence[RunLine]) -> str:
    """`promote 3, reject 1, failed 1`: how many dates ended how."""
    return ", ".join(f"{standing} {number}" for standing, number in _counts(lines).items()) or "no runs"


def _counts(lines: Sequence[RunLine]) -> dict[str, int]:
    counts = {standing: sum(line.standing == standing for line in lines) for standing in _MOODS}
    return {standing: number for standing, number in counts.items() if number}
