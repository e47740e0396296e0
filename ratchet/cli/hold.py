"""`ratchet hold`: no promotion until it is released."""

import argparse

from ratchet.cli.model_version import Act, add_verb
from ratchet.production.hold import hold

_NOTE = """\
Runs go on: they train and judge. What they find better is registered, and not promoted.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    add_verb(parser, "MODEL", "the model", note=_NOTE, act=_act)


def _act(options: argparse.Namespace) -> Act:
    return lambda store, model, _, who: hold(store, model, by=who, because=options.because)
