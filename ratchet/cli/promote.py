"""`ratchet promote`: a registered version into production by hand."""

import argparse

from ratchet.cli.model_version import Act, add_verb
from ratchet.contracts.environment import environment
from ratchet.production.promote import promote

_NOTE = """\
The version's files are loaded, in a process of their own, and compared with its digest first. The ledger records that a
person decided, and why. A banned version has to be released first. See docs/rollback.md.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    what = "a version of the registry that Ratchet registered"
    add_verb(parser, "MODEL@VERSION", what, note=_NOTE, act=_act)
    parser.add_argument(
        "--approved-by",
        metavar="NAME",
        help="the second person, where register.approvals of the pipeline is 2; or one of its register.approvers",
    )


def _act(options: argparse.Namespace) -> Act:
    uri, because, second = environment().tracking_uri, options.because, options.approved_by
    return lambda store, model, version, who: promote(
        store, uri, model, str(version), by=who, because=because, approved_by=second
    )
