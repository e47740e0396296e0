"""`ratchet nights PIPELINE`: prints one line for each date, with the verdict and the gain of its newest run."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from textwrap import wrap

from rich.console import Console

from ratchet.cli.json_error import error_object
from ratchet.cli.pipelines import add_store
from ratchet.contracts.dates import parse_date
from ratchet.contracts.errors import ConfigurationError, RatchetError
from ratchet.contracts.quantities import percent
from ratchet.pages.words import count, interval
from ratchet.runs.history import days_of
from ratchet.runs.history_page import in_words, page
from ratchet.runs.run_index import RunLine, nights
from ratchet.store.opening import open_store

_HEADINGS = ("date", "run", "verdict", "gain", "would promote", "version")
_WIDE = 100
"""Columns of a terminal in which the bounds of a gain have room beside it."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.add_argument("pipeline", metavar="PIPELINE", help="the name of the pipeline")
    add_store(parser)
    parser.add_argument("--from", dest="first", metavar="D1", help="the first date (default: the first with a run)")
    parser.add_argument("--to", dest="last", metavar="D2", help="the last date (default: the last with a run)")
    parser.add_argument(
        "--kind",
        choices=("scheduled", "manual", "backfill", "local"),
        help="show only runs of this kind (default: the newest run of any kind)",
    )
    parser.add_argument("--html", metavar="FILE", type=Path, help="write an HTML page to this file instead of a table")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print JSON on standard output, and nothing else: a list of dates, or an object with an error",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        return _show(options)
    except RatchetError as error:
        if options.json:
            print(json.dumps({"error": error_object(error)}, indent=2))
        raise


def _show(options: argparse.Namespace) -> int:
    store = open_store(options.store)
    lines = nights(store, options.pipeline, options.kind)
    if not lines and not days_of(store, options.pipeline):
        raise ConfigurationError(
            f"no run of {options.pipeline!r} in {options.store}", remedy="check --store and the name of the pipeline"
        )
    first = parse_date(options.first, "--from") if options.first is not None else date.min
    last = parse_date(options.last, "--to") if options.last is not None else date.max
    lines = [line for line in lines if first <= line.day <= last]
    if options.json:
        json.dump([_as_json(line) for line in lines], sys.stdout, indent=2)
        print()
    elif options.html:
        options.html.write_text(page(options.pipeline, lines), encoding="utf-8")
        print(f"{options.html}: {count(len(lines), 'date')}; {in_words(lines)}")
    else:
        print("\n".join(table(lines, Console().width if sys.stdout.isatty() else None)))
        print(f"{count(len(lines), 'date')}; {in_words(lines)}")
    return 0


def _as_json(line: RunLine) -> dict[str, object]:
    gain = line.gain.model_dump() if line.gain else None
    return {**asdict(line), "day": line.day.isoformat(), "gain": gain}


def table(lines: Sequence[RunLine], width: int | None) -> Iterator[str]:
    """The lines of the table. width: columns of the terminal; the reason of a run is then wrapped below its line.

    None for a file or a pipe: one line for each run, with the whole reason at its end.
    """
    rows = [_HEADINGS, *(_cells(line, bounds=width is None or width >= _WIDE) for line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells, cause in zip(rows, ["why", *(_one_line(line.cause) for line in lines)], strict=True):
        facts = "  ".join(f"{cell:<{size}}" for cell, size in zip(cells, widths, strict=True))
        if width is None:
            yield f"{facts}  {cause}".rstrip()
            continue
        yield facts.rstrip()
        yield from wrap(cause, width, initial_indent="  ", subsequent_indent="  ")


def _one_line(cause: str) -> str:
    """A cause in one line, also one that lists the failed checks below it."""
    return "; ".join(line.strip().removeprefix("- ") for line in cause.splitlines() if line.strip())


def _cells(line: RunLine, *, bounds: bool) -> tuple[str, ...]:
    gain = "" if line.gain is None else interval(line.gain) if bounds else percent(line.gain.value, signed=True)
    would = "yes, and did" if line.promoted else "yes" if line.would_promote else "no"
    would = "waits for approval" if line.asks else would
    version = f"{line.version} (in production)" if line.live else line.version
    return f"{line.day}", line.kind, line.standing, gain, would, version
