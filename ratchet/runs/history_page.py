"""The nights of a pipeline as a page that needs nothing else: a line for each date, its gain as a picture.

Built from what is in the store when it is asked for, so that it is never behind a backfill that goes on.
"""

from collections.abc import Sequence
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ratchet.pages.words import percent
from ratchet.runs.history import RunLine

_PAGE = """\
<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{{ title }}</title>
<style>{{ css }} td.gain { min-width: 14em } svg { vertical-align: middle }</style></head><body><main>
<h1>{{ title }}</h1><p>{{ lines | length }} dates; {{ summary }}.</p>
<table><thead><tr><th>Date</th><th>Verdict</th><th>Gain</th><th></th><th>Would have promoted</th><th>Version</th>
<th>Why</th></tr></thead><tbody>
{% for line in lines %}<tr><td>{{ line.day }}</td><td>{{ line.standing }}</td>
<td>{% if line.gain %}{{ line.gain.value | percent }}{% endif %}</td>
<td class="gain">{% if line.gain %}<svg width="200" height="14" role="img"
aria-label="from {{ line.gain.low | percent }} to {{ line.gain.high | percent }}">
<line x1="100" x2="100" y1="0" y2="14" stroke="#999"/>
<line x1="{{ place(line.gain.low) }}" x2="{{ place(line.gain.high) }}" y1="7" y2="7" stroke="#456" stroke-width="2"/>
<circle cx="{{ place(line.gain.value) }}" cy="7" r="4" fill="{{ "#2a7" if line.would_promote else "#a64" }}"/></svg>\
{% endif %}</td>
<td>{{ "yes" if line.would_promote else "no" }}{{ ", and did" if line.promoted else "" }}</td>
<td>{{ line.version }}</td><td>{{ line.cause }}</td></tr>
{% endfor %}</tbody></table></main></body></html>
"""


def page(pipeline: str, lines: Sequence[RunLine]) -> str:
    """HTML. Whatever comes from data or from errors is escaped."""
    widest = max((abs(bound) for line in lines if line.gain for bound in (line.gain.low, line.gain.high)), default=0.0)
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters["percent"] = percent
    environment.globals["place"] = lambda gain: round(100 + 94 * gain / (widest or 1), 1)
    css = files("ratchet.pages").joinpath("page.css").read_text(encoding="utf-8")
    return environment.from_string(_PAGE).render(
        title=f"{pipeline}: nights",
        lines=lines,
        css=Markup(css),  # noqa: S704 - our own file
        summary=in_words(lines),
    )


def in_words(lines: Sequence[RunLine]) -> str:
    """`promote 3, reject 1, failed 1`: how many dates stand how."""
    order = ("promote", "inconclusive", "reject", "failed", "unfinished")
    counts = {standing: sum(line.standing == standing for line in lines) for standing in order}
    return ", ".join(f"{standing} {count}" for standing, count in counts.items() if count) or "no runs"
