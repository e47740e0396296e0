"""`ratchet hold`: no promotion until it is released."""

import argparse

from ratchet.cli.model_version import add_change, by, show, split
from ratchet.contracts.environment import environment
from ratchet.production.by_hand import carry_out
from ratchet.production.hold import hold
from ratchet.store.opening import open_store

_NOTE = """\
Runs go on: they train and judge. What they find better is registered, and not promoted.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _NOTE
    add_change(
        parser,
        "MODEL",
        "the model",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    model, _ = split(options.model, version=False)
    store, who = open_store(options.store), by(options)
    done = carry_out(
        store,
        environment().tracking_uri,
        model,
        lambda: hold(store, model, by=who, because=options.because),
    )
    return show(done)
