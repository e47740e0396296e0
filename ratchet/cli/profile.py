"""`ratchet profile`: shows what the rows of days are like and how two days differ, and suggests a pipeline file."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

from ratchet.cli.json_error import error_object
from ratchet.cli.pipelines import PIPELINE_HELP, add_store, find
from ratchet.contracts.dates import parse_date
from ratchet.contracts.errors import ConfigurationError, RatchetError
from ratchet.contracts.loading import load
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.pages.words import count
from ratchet.runtime.held_days import read_index
from ratchet.store.base import Store
from ratchet.store.opening import open_store

_NOTE = """\
  ratchet profile PIPELINE                          the newest day that a night has measured
  ratchet profile PIPELINE --from D1 --to D2        several days as one
  ratchet profile PIPELINE --day D1 --against D2    how a day differs from another one
  ratchet profile --suggest FILE                    a pipeline file for a data file of one day

validate measures the profile of a day once, in one pass over its rows, and stores it. Profiles of days add up: counts
of rows, missing values and histograms are exact; of values beyond the 1,000 most frequent ones only the number of rows
is kept; the number of different values is exact below 128, else within about 9 %. PSI and JS (Jensen-Shannon) say how
far two distributions are apart: below 0.1 little, above 0.25 much. `--json` prints profiles as they are stored.
"""
_HEADINGS = ("column", "type", "missing", "distinct", "range", "most frequent")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _NOTE
    parser.add_argument("pipeline", nargs="?", metavar="PIPELINE", help=PIPELINE_HELP)
    add_store(parser)
    parser.add_argument("--day", metavar="D", help="the day to show (default: the newest one)")
    parser.add_argument("--from", dest="first", metavar="D1", help="the first of several days")
    parser.add_argument("--to", dest="last", metavar="D2", help="the last of several days")
    parser.add_argument("--against", metavar="D", help="the day to compare with")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with a chart of each column")
    parser.add_argument("--suggest", type=Path, metavar="FILE", help="print a pipeline file for this data file")
    parser.add_argument(
        "--json", action="store_true", help="print JSON on standard output, and nothing else: the profile of each day"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        return _suggest(options) if options.suggest is not None else _show(options)
    except RatchetError as error:
        if options.json:
            print(json.dumps({"error": error_object(error)}, indent=2))
        raise


def _suggest(options: argparse.Namespace) -> int:
    if options.pipeline is not None or options.json:
        given = "--json" if options.json else "pipeline"
        raise ConfigurationError(f"--suggest needs no {given}", remedy="ratchet profile --suggest FILE > pipeline.yaml")
    print(import_module("tasks.profiling.suggest").suggest(options.suggest), end="")
    return 0


def _show(options: argparse.Namespace) -> int:
    if options.pipeline is None:
        raise ConfigurationError("PIPELINE is missing", remedy="name a pipeline, or a data file with --suggest")
    spec, store = load(find(options.pipeline)), open_store(options.store)
    profiling = import_module("tasks.profiling.days")
    wanted = _days(options, store, spec)
    against = parse_date(options.against, "--against") if options.against is not None else None
    found = profiling.stored_profiles(store, spec, {*wanted, *([against] if against else [])})
    if lacking := [day for day in (*wanted, *([against] if against else [])) if day not in found]:
        raise ConfigurationError(
            f"no profile of {lacking[0]} is stored" + (f", and of {len(lacking) - 1} more days" if lacking[1:] else ""),
            remedy=f"run it: ratchet run {options.pipeline} --date {lacking[0]}; "
            f"`ratchet data {spec.name}` lists the days of the snapshot",
        )
    if options.json:
        json.dump(profiling.as_json(found), sys.stdout, indent=2)
        print()
        return 0
    profile = import_module("tasks.validate.profile").total(found[day] for day in wanted)
    named = str(wanted[0]) if len(wanted) == 1 else f"{wanted[0]} to {wanted[-1]}, {count(len(wanted), 'day')}"
    other = found[against] if against else None
    if options.html is not None:
        page = import_module("tasks.profiling.page").render(spec, named, profile, str(against or ""), other)
        _write(options.html, page)
        print(options.html)
        return 0
    head = f"{spec.name} {named}: {count(profile.rows, 'row')}, {profile.labelled:,} with a label"
    print(head + (f"; against {against}: {count(other.rows, 'row')}" if other is not None else ""))
    print("\n".join(_table([*profiling.lines(profile, other)], compared=other is not None)))
    return 0


def _write(path: Path, page: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"--html {path}: {error.strerror}", remedy="name a file that you may write") from error


def _days(options: argparse.Namespace, store: Store, spec: PipelineSpec) -> list[date]:
    """The days to show, oldest first."""
    known = sorted(read_index(store, spec).days)
    if not known:
        raise ConfigurationError(
            f"no day of {spec.name} with these columns is in {store.uri}",
            remedy=f"run a night: ratchet run {options.pipeline} --date D",
        )
    if options.day is not None:
        if options.first is not None or options.last is not None:
            raise ConfigurationError("--day goes without --from and --to", remedy="choose one of them")
        return [parse_date(options.day, "--day")]
    if options.first is None and options.last is None:
        return known[-1:]
    first = parse_date(options.first, "--from") if options.first is not None else known[0]
    last = parse_date(options.last, "--to") if options.last is not None else known[-1]
    if not (days := [day for day in known if first <= day <= last]):
        raise ConfigurationError(
            f"the snapshot has no day from {first} to {last}; it has {known[0]} to {known[-1]}", remedy="choose others"
        )
    return days


def _table(lines: Sequence[Any], *, compared: bool) -> Iterator[str]:
    cells = [(line.name, line.kind, line.missing, line.distinct, line.range, line.frequent) for line in lines]
    rows = [_HEADINGS, *cells]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    changes = ["change", *(line.change for line in lines)] if compared else [""] * len(rows)
    for row, change in zip(rows, changes, strict=True):
        yield "  ".join([*(f"{cell:<{size}}" for cell, size in zip(row, widths, strict=True)), change]).rstrip()
