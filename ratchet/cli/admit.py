"""`ratchet admit`: lets the rows of a day into later runs, although its own run refused them."""

import argparse

from ratchet.cli.pipelines import add_store
from ratchet.contracts.dates import parse_date
from ratchet.contracts.errors import ConfigurationError
from ratchet.runs.day_records import admit
from ratchet.store.opening import open_store

_NOTE = """\
A day that its own run refused is in no later window, split, drift reference or volume base, until a later run of this
date passes, or until a person lets it in with this command. The admission is for the rows that were refused: if the
source delivers others, they are out again. Later plans, validations, reports and ledger records name it, with NAME and
WHY. The run of the date itself stays refused.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _NOTE
    parser.add_argument("pipeline", metavar="PIPELINE", help="the name of the pipeline")
    add_store(parser)
    parser.add_argument("--date", metavar="D", required=True, help="the refused date, as YYYY-MM-DD")
    parser.add_argument("--by", metavar="NAME", required=True, help="who lets it in")
    parser.add_argument("--because", metavar="WHY", required=True, help="why, for those who read the report")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    for flag, text in (("--by", options.by), ("--because", options.because)):
        if not text.strip():
            raise ConfigurationError(f"{flag} is empty", remedy="name the person and the reason")
    day = parse_date(options.date, "--date")
    record = admit(open_store(options.store), options.pipeline, day, by=options.by, because=options.because)
    print(f"{options.pipeline} {day}: let in by {record.by}: {record.reason} (run {record.run_id} refused it)")
    return 0
