"""`ratchet rollback`: an earlier champion back in production."""

import argparse

from ratchet.cli.model_version import Act, add_verb
from ratchet.contracts.environment import environment
from ratchet.production.rollback import rollback

_NOTE = """\
The models that were in production since then are banned, with the recipes of their trainings: no rerun, rebuild,
backfill or approval brings one back before a person releases it. A champion that the registry does not have is passed
over. See docs/rollback.md.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    what = "the model; with a version, the earlier champion (default: the last different one that may serve)"
    add_verb(parser, "MODEL[@VERSION]", what, note=_NOTE, act=_act)


def _act(options: argparse.Namespace) -> Act:
    tracking = environment().tracking_uri
    return lambda store, model, version, who: rollback(
        store, model, version=version, by=who, because=options.because, tracking_uri=tracking
    )
