"""`ratchet rollback`: an earlier champion back in production."""

import argparse

from ratchet.cli.model_version import add_change, by, show, split
from ratchet.contracts.environment import environment
from ratchet.production.by_hand import carry_out
from ratchet.production.rollback import rollback
from ratchet.store.opening import open_store

_NOTE = """\
The models that were in production since then are banned, with the recipes of their trainings: no rerun, rebuild,
backfill or approval brings one back before a person releases it. See docs/rollback.md.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _NOTE
    add_change(
        parser,
        "MODEL[@VERSION]",
        "the model; with a version, the earlier champion (default: the last different one that is not banned)",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    model, version = split(options.model, version=None)
    store, who = open_store(options.store), by(options)
    done = carry_out(
        store,
        environment().tracking_uri,
        model,
        lambda: rollback(store, model, version=version, by=who, because=options.because),
    )
    return show(done)
