"""`ratchet gc`: says what of a store nothing needs any more, and deletes it with --apply."""

import argparse
import json

from ratchet.cli.pipelines import add_store
from ratchet.collection.collector import Collector
from ratchet.collection.words import lines, plain
from ratchet.contracts.environment import environment, variable
from ratchet.store.opening import open_store

_NOTE = f"""\
Without --apply it only says what would go, and what stays, with the reason. What a ledger names stays for ever, and so
do the newest rows of each day (`ratchet data expire` drops those), rows that a registered version names, records of
versions, days and purges. How long other things stay is set by {variable("gc")}. Nothing goes of a pipeline of which
something cannot be read. The exit code is 0, or 1 if a pipeline could not be checked. See docs/operations.md.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _NOTE
    parser.add_argument(
        "--pipeline", action="append", default=[], metavar="NAME", help="only this pipeline; may be repeated"
    )
    parser.add_argument("--apply", action="store_true", help="delete it")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_store(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    store, settings = open_store(options.store), environment()
    collector = Collector(store, settings.tracking_uri, settings.gc, apply=options.apply)
    found = collector.collect(options.pipeline)
    if options.json:
        print(json.dumps(plain(found), indent=2))
    else:
        print("\n".join(lines(found, settings.gc, apply=options.apply)))
        if not any(one.pipeline for one in found):
            print(f"{store.uri} has no run of any pipeline; check --store and {variable('store')} if it should have")
    return 1 if any(one.unchecked for one in found) else 0
