"""`ratchet data`: shows the days of a pipeline's data, lets one in or keeps one out, and removes rows for good."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from ratchet.cli.data_removal import EXPIRE, NOTE, PURGE, add_flags, given, remove, removed
from ratchet.cli.json_error import error_object
from ratchet.cli.pipelines import add_store
from ratchet.contracts.dates import parse_date
from ratchet.contracts.day_record import DayRecord
from ratchet.contracts.errors import ConfigurationError, RatchetError
from ratchet.pages.words import count
from ratchet.runs.data_days import DataDay, data_days, refuse_day
from ratchet.runs.day_records import admit
from ratchet.store.opening import open_store
from ratchet.store.removals import removals

_ACCEPT, _REFUSE = "accept", "refuse"
_MOST = 3
"""Versions that are named one by one."""
_HEADINGS = ("date", "state", "rows", "version", "trained")
_NOTE = """\
  ratchet data PIPELINE                                          shows a line for each day
  ratchet data accept PIPELINE DAY --by NAME --because WHY       lets a refused day in
  ratchet data refuse PIPELINE DAY --by NAME --because WHY       keeps a day out

{removal}
A day is arrived (no run of this date has checked its rows; windows take it), accepted or refused by its own run, or
let in by a person. A refused day is in no later window, split, drift reference or volume base, until a later run of
this date passes, or until a person lets it in; a run with --set validate... or --set columns... is a trial, and takes
no refusal back. That is for the rows that were refused: if the source delivers others,
they are out again. What a person refuses stays out until a person lets it in, or until the source delivers other rows
and a run of the date passes. Later plans, validations, reports and ledger records name it, with NAME and WHY. The run
of the date itself stays refused. `trained` are the versions of the model that have learnt from these rows, or in
parentheses from other rows that the day had before.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _NOTE.format(removal=NOTE)
    parser.usage = "ratchet data [accept|refuse|purge|expire] PIPELINE [DAY] [options]"
    parser.add_argument("words", nargs="+", metavar="PIPELINE", help="the name of the pipeline; see below for more")
    add_store(parser)
    parser.add_argument("--from", dest="first", metavar="D1", help="the first day to show")
    parser.add_argument("--to", dest="last", metavar="D2", help="the last day to show")
    parser.add_argument("--by", metavar="NAME", help="who accepts, refuses, purges or lets expire")
    parser.add_argument("--because", metavar="WHY", help="why, for those who read the records")
    add_flags(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help="print JSON on standard output, and nothing else: a list of days, or an object with an error",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        if options.words[0] in {PURGE, EXPIRE}:
            return remove(options)
        if others := given(options):
            raise ConfigurationError(
                f"{' and '.join(others)}: only with purge or expire", remedy=f"ratchet data {PURGE} PIPELINE ..."
            )
        return _decide(options) if options.words[0] in {_ACCEPT, _REFUSE} else _show(options)
    except RatchetError as error:
        if options.json:
            print(json.dumps({"error": error_object(error)}, indent=2))
        raise


def _decide(options: argparse.Namespace) -> int:
    what = options.words[0]
    match options.words[1:]:
        case [pipeline, text]:
            day = parse_date(text, "DAY")
        case _:
            raise ConfigurationError(
                f"{what} needs a pipeline and a day", remedy=f"ratchet data {what} PIPELINE DAY --by NAME --because WHY"
            )
    for flag, text in (("--by", options.by), ("--because", options.because)):
        if not (text or "").strip():
            raise ConfigurationError(f"{flag} is missing or empty", remedy="name the person and the reason")
    decide = admit if what == _ACCEPT else refuse_day
    record = decide(open_store(options.store), pipeline, day, by=options.by, because=options.because)
    if options.json:
        print(record.model_dump_json(indent=2))
    else:
        print(f"{pipeline} {said(record)}")
    return 0


def said(record: DayRecord) -> str:
    """What a person decided, in a line."""
    if record.action == "refuse":
        return f"{record.day}: refused by {record.by}: {record.reason}"
    by_run = f" (run {record.run_id} refused it)" if record.run_id else ""
    return f"{record.day}: let in by {record.by}: {record.reason}{by_run}"


def _show(options: argparse.Namespace) -> int:
    pipeline, *others = options.words
    if options.by is not None or options.because is not None:
        raise ConfigurationError(
            "--by and --because go with accept and refuse", remedy=f"ratchet data {_ACCEPT} {pipeline} DAY ..."
        )
    if others:
        raise ConfigurationError(
            f"{others[0]!r} is not known here", remedy="give the name of one pipeline; --from and --to choose days"
        )
    days = data_days(open_store(options.store), pipeline)
    if options.first is not None:
        days = [day for day in days if day.day >= parse_date(options.first, "--from")]
    if options.last is not None:
        days = [day for day in days if day.day <= parse_date(options.last, "--to")]
    if options.json:
        json.dump([{**asdict(day), "day": day.day.isoformat()} for day in days], sys.stdout, indent=2)
        print()
    else:
        print("\n".join(table(days)))
        counted = {state: sum(day.state == state for day in days) for state in dict.fromkeys(day.state for day in days)}
        states = ", ".join(f"{number} {state}" for state, number in counted.items())
        print(f"{count(len(days), 'day')}; {states}" if days else "no day of the snapshot is in this range")
        for removal in removals(open_store(options.store), pipeline):
            print(removed(removal))
    return 0


def table(days: Sequence[DataDay]) -> Iterator[str]:
    """The lines of the table."""
    rows = [_HEADINGS, *map(_cells, days)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells, why in zip(rows, ["why", *map(_why, days)], strict=True):
        yield "  ".join([*(f"{cell:<{size}}" for cell, size in zip(cells, widths, strict=True)), why]).rstrip()


def _cells(day: DataDay) -> tuple[str, ...]:
    before = f"({_spans(day.before)})" if day.before else ""
    trained = " ".join(filter(None, [_spans(day.models), before]))
    return f"{day.day}", day.state, f"{day.rows:,}", day.version, trained


def _why(day: DataDay) -> str:
    return f"by {day.by}: {day.why}" if day.by else day.why


def _spans(versions: Sequence[str]) -> str:
    """Versions in a few words: the first and the last of many."""
    return ", ".join(versions) if len(versions) <= _MOST else f"{versions[0]} to {versions[-1]}: {len(versions)}"
