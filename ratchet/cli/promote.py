"""`ratchet promote`: a registered version into production by hand."""

import argparse

from ratchet.cli.model_version import add_change, by, show, split
from ratchet.contracts.environment import environment
from ratchet.production.by_hand import carry_out
from ratchet.production.promote import promote
from ratchet.store.opening import open_store

_NOTE = """\
The version's files are loaded and compared with its digest first. The ledger records that a person decided, and why. A
banned version has to be released first. See docs/rollback.md.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _NOTE
    add_change(parser, "MODEL@VERSION", "a version of the registry that Ratchet registered")
    parser.add_argument(
        "--approved-by", metavar="NAME", help="the second person, where register.approvals of the pipeline is 2"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    model, version = split(options.model, version=True)
    store, uri, who = open_store(options.store), environment().tracking_uri, by(options)
    done = carry_out(
        store,
        uri,
        model,
        lambda: promote(
            store, uri, model, str(version), by=who, because=options.because, approved_by=options.approved_by
        ),
    )
    return show(done)
