"""`ratchet release`: promotions go on, or a banned version may return."""

import argparse

from ratchet.cli.model_version import add_change, by, show, split
from ratchet.contracts.environment import environment
from ratchet.production.by_hand import carry_out
from ratchet.production.release import release
from ratchet.store.opening import open_store

_NOTE = """\
It promotes nothing itself.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _NOTE
    add_change(
        parser,
        "MODEL[@VERSION]",
        "the model, to end its hold; with a version, to end the ban on it",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    model, version = split(options.model, version=None)
    store, who = open_store(options.store), by(options)
    done = carry_out(
        store,
        environment().tracking_uri,
        model,
        lambda: release(store, model, version=version, by=who, because=options.because),
    )
    return show(done)
