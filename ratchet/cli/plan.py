"""`ratchet plan`: shows what a run would do, without running it."""

import argparse
from collections.abc import Iterator, Sequence
from datetime import date, timedelta

from ratchet.cli.pipelines import add_pipeline, add_store, as_text, find, overrides
from ratchet.contracts.dates import parse_date
from ratchet.contracts.environment import environment
from ratchet.contracts.loading import load
from ratchet.pages.words import count, seconds
from ratchet.runs.preview import Preview, preview

_NO_FIGURE = "no figure yet"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    add_pipeline(parser)
    add_store(parser)
    parser.add_argument("--date", required=True, metavar="D", help="the data date, as YYYY-MM-DD")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    folder = find(options.pipeline)
    changed = overrides(options.set)
    spec = load(folder, changed)
    day = parse_date(options.date, "--date")
    planned = preview(
        folder=folder,
        spec=spec,
        data_date=day,
        store_uri=options.store,
        tracking_uri=environment().tracking_uri,
        overrides=as_text(changed),
    )
    print(f"{spec.name} {day}: a window of {count(planned.days, 'day')}, {planned.source_bytes / 1e6:.1f} MB of source")
    for days, what in (
        (planned.new, "would be read for the first time"),
        (planned.changed, "changed, or Ratchet reads them otherwise now, and would be read again"),
        (planned.joined, "would be joined again, as days of a further source or the join changed"),
        (planned.held, "would be taken from the snapshot, as the source has them no more, or not whole"),
    ):
        if days:
            print(f"{count(len(days), 'day')} {what}: {', '.join(spans(days))}")
    if planned.missing:
        print(f"no data for {count(len(planned.missing), 'day')}: {', '.join(spans(planned.missing))}")
    if day in planned.missing:
        print(f"a run would stop in ingest, because {day} has no data; deliver the day, or choose another date")
    print(f"baseline: {planned.baseline}; production: {planned.promotion}")
    for line in planned.stages:
        taken = f"about {seconds(line.seconds)}" if line.seconds is not None else _NO_FIGURE
        rows = count(line.rows, "row") if line.rows is not None else ""
        print(f"{line.stage:<9} {line.state:<8} {taken:<18} {rows:<16} {line.because}")
    print(f"in all {total(planned)}")
    return 0


def spans(days: Sequence[date]) -> Iterator[str]:
    """Days, in order, as text: `2026-03-01`, or `2026-03-01 to 2026-03-05` for days that follow one another."""
    first = last = days[0]
    for day in (*days[1:], None):
        if day is not None and day - last == timedelta(days=1):
            last = day
            continue
        yield f"{first}" if first == last else f"{first} to {last}"
        if day is not None:
            first = last = day


def total(planned: Preview) -> str:
    """How long a run takes in all: `about 12 s, 0.00 GPU hours`, or that there is no figure yet."""
    if planned.seconds is None:
        return f"{_NO_FIGURE}: a first run measures its stages"
    without = f", without {', '.join(planned.unknown)} ({_NO_FIGURE})" if planned.unknown else ""
    return f"about {seconds(planned.seconds)}, {planned.gpu_hours:.2f} GPU hours{without}"
