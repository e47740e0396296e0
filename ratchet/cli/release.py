"""`ratchet release`: promotions go on, or a banned version may return."""

import argparse

from ratchet.cli.model_version import Act, add_verb
from ratchet.production.release import release

_NOTE = """\
It promotes nothing itself.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    what = "the model, to end its hold; with a version, to end the ban on it"
    add_verb(parser, "MODEL[@VERSION]", what, note=_NOTE, act=_act)


def _act(options: argparse.Namespace) -> Act:
    return lambda store, model, version, who: release(store, model, version=version, by=who, because=options.because)
