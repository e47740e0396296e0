"""`ratchet host-gone`: a host with a Docker engine is gone for good, so nothing waits for its containers any more."""

import argparse

from ratchet.cli.model_version import by
from ratchet.cli.pipelines import add_store
from ratchet.production.by_hand import check_words
from ratchet.runs.lost_hosts import say_gone
from ratchet.store.opening import open_store

_NOTE = """\
Where several hosts have an engine, no host begins what may still be computed on another one. It waits, for a host that
is silent no longer than three and a half hours. This ends the wait at once. It refuses while a container there shows
that it lives. A container that is only cut off from the store stops when it reaches the store again.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _NOTE
    parser.add_argument("host", metavar="HOST", help="the name of the host, or the id of its engine, as the log has it")
    parser.add_argument("--because", metavar="WHY", required=True, help="why, for the record that the run keeps")
    parser.add_argument("--by", metavar="NAME", default=None, help="who says so (default: user@host)")
    add_store(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    who = by(options)
    check_words(who, options.because)
    for freed in say_gone(open_store(options.store), options.host, by=who, because=options.because):
        print(f"gone with {options.host}: {freed}; it may begin elsewhere")
    print(f"{options.host} counts as gone, until its reaper is back")
    return 0
