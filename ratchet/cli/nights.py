"""`ratchet nights PIPELINE`: prints one line for each date, with the verdict and the gain of its newest run."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ratchet.cli.pipelines import add_store
from ratchet.contracts.dates import parse_date
from ratchet.contracts.errors import ConfigurationError
from ratchet.pages.words import interval
from ratchet.runs.history import RunLine, days_of, newest
from ratchet.runs.history_page import in_words, page
from ratchet.store.opening import open_store


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.add_argument("pipeline", metavar="PIPELINE", help="the pipeline's name")
    add_store(parser)
    parser.add_argument("--from", dest="first", metavar="D1", help="the first date (default: all)")
    parser.add_argument("--to", dest="last", metavar="D2", help="the last date")
    parser.add_argument(
        "--kind",
        choices=("scheduled", "manual", "backfill", "local"),
        help="only runs of this kind (default: the newest run of any kind)",
    )
    parser.add_argument("--html", metavar="FILE", type=Path, help="write an HTML page to this file instead of a table")
    parser.add_argument("--json", action="store_true", help="print JSON on standard output, and nothing else")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    store = open_store(options.store)
    days = days_of(store, options.pipeline)
    if not days:
        raise ConfigurationError(
            f"no run of {options.pipeline!r} in {options.store}", remedy="check --store and the name of the pipeline"
        )
    first = parse_date(options.first, "--from") if options.first else days[0]
    last = parse_date(options.last, "--to") if options.last else days[-1]
    found = (newest(store, options.pipeline, day, options.kind) for day in days if first <= day <= last)
    lines = [line for line in found if line is not None]
    if options.json:
        json.dump([_as_json(line) for line in lines], sys.stdout, indent=2)
        print()
    elif options.html:
        options.html.write_text(page(options.pipeline, lines), encoding="utf-8")
        print(f"{options.html}: {len(lines)} dates; {in_words(lines)}")
    else:
        Console().print(_table(lines))
        print(f"{len(lines)} dates; {in_words(lines)}")
    return 0


def _as_json(line: RunLine) -> dict[str, object]:
    gain = line.gain.model_dump() if line.gain else None
    return {**asdict(line), "day": line.day.isoformat(), "gain": gain}


def _table(lines: list[RunLine]) -> Table:
    table = Table("date", "run", "verdict", "gain", "would promote", "version", box=None)
    table.add_column("why", no_wrap=True, overflow="ellipsis")
    for line in lines:
        gain = interval(line.gain) if line.gain else ""
        would = "yes, and did" if line.promoted else "yes" if line.would_promote else "no"
        table.add_row(f"{line.day}", line.kind, line.standing, gain, would, line.version, line.cause.partition("\n")[0])
    return table
