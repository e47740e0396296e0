"""`ratchet sample`: writes example data."""

import argparse
import sys
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path

from ratchet.contracts.dates import parse_date
from ratchet.contracts.errors import ConfigurationError
from ratchet.pages.words import count

KINDS = ("clicks", "payments")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.add_argument(
        "kind",
        metavar="KIND",
        choices=KINDS,
        help="clicks: a search log to rank; payments: a binary problem with few positives",
    )
    parser.add_argument("--days", type=int, default=31, metavar="N", help="the number of days (default: %(default)s)")
    parser.add_argument(
        "--rows-per-day",
        type=int,
        default=20_000,
        metavar="R",
        help="about how many rows each day has (default: %(default)s)",
    )
    parser.add_argument("--end", metavar="DATE", help="the last day, as YYYY-MM-DD (default: yesterday in UTC)")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="S", help="another seed gives other data (default: %(default)s)"
    )
    parser.add_argument(
        "--out", required=True, type=Path, metavar="DIR", help="the folder to write to, as DIR/KIND/date=YYYY-MM-DD/"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    for key in ("days", "rows_per_day"):
        if getattr(options, key) < 1:
            raise ConfigurationError(f"--{key.replace('_', '-')} must be above 0", remedy="give at least 1")
    end = parse_date(options.end, "--end") if options.end is not None else datetime.now(UTC).date() - timedelta(days=1)
    write = import_module(f"ratchet.samples.{options.kind}").write
    for number, path in enumerate(
        write(options.out, days=options.days, rows_per_day=options.rows_per_day, end=end, seed=options.seed), start=1
    ):
        if sys.stderr.isatty():
            print(f"\r{number}/{options.days} {path.parent.name}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print(f"{count(options.days, 'day')} of {options.kind} up to {end} in {options.out / options.kind}")
    return 0
