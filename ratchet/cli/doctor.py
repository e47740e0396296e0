"""`ratchet doctor MODEL`: whether production is well, and what to do where it is not."""

import argparse

from ratchet.cli.model_version import split
from ratchet.cli.pipelines import add_store
from ratchet.cli.user import user_at_host
from ratchet.contracts.environment import environment
from ratchet.production.accept_loss import accept_loss
from ratchet.production.diagnosis import diagnose
from ratchet.production.register_again import register_again
from ratchet.store.opening import open_store

_NOTE = """\
It repairs what is safe, and says so: an alias that does not name what the ledger names, a head of the ledger that lags
after a crash, damaged copies of the model's files in MLflow. The exit code is 0 if all is well, 1 if something is wrong
or could not be checked. See docs/rollback.md.
"""
_MARKS = {True: "ok", False: "WRONG", None: "unchecked"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _NOTE
    parser.add_argument("model", metavar="MODEL", help="the registered model (default name: that of the pipeline)")
    parser.add_argument(
        "--accept-loss",
        metavar="WHY",
        help="go on with a ledger whose newest records are lost and in no backup: it is cut to those that are whole, "
        "the alias follows, and promotions are held until `ratchet release MODEL`",
    )
    parser.add_argument(
        "--register-again",
        metavar="WHY",
        help="make a version of the model in production (of MODEL@VERSION: of one that was in production, to roll "
        "back to it) from the store, where the registry has lost it and no backup has it; the ledger stays as it is",
    )
    parser.add_argument("--by", metavar="NAME", default=None, help="who decides either (default: user@host)")
    add_store(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    model, version = split(options.model, version=None if options.register_again is not None else False)
    store, uri = open_store(options.store), environment().tracking_uri
    who = user_at_host() if options.by is None else options.by
    if options.accept_loss is not None:
        record = accept_loss(store, uri, model, by=who, because=options.accept_loss)
        cut = f"record {record.number}: {record.reason}" if record else "no record was whole: the ledger is empty now"
        print(f"{cut}; what did not belong to it is kept beside it")
    if options.register_again is not None:
        number = register_again(store, uri, model, version=version, by=who, because=options.register_again)
        which = f"the model that was version {version}" if version else "the model in production"
        print(f"{which} is registered again, as version {number} of {model}")
    lines = diagnose(store, uri, model)
    for line in lines:
        print(f"{_MARKS[line.well]:<9} {line.name:<8} {line.text}")
    return 0 if all(line.well for line in lines) else 1
