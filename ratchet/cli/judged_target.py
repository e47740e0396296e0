"""The arguments of the verbs that write something of a run with a verdict: which run, and where to."""

import argparse
from pathlib import Path

from ratchet.cli.pipelines import add_store


def add_judged_target(parser: argparse.ArgumentParser, metavar: str, what: str) -> None:
    """Add PIPELINE/RUN, --store and --out. metavar, what: of --out."""
    parser.add_argument(
        "target", metavar="PIPELINE/RUN", help="a run with a verdict; `ratchet why PIPELINE` lists runs"
    )
    add_store(parser)
    parser.add_argument("--out", required=True, type=Path, metavar=metavar, help=what)
