"""The arguments of the verbs that change production: a model or one of its versions, who, and why."""

import argparse
from collections.abc import Callable
from functools import partial

from ratchet.cli.pipelines import add_store
from ratchet.cli.user import user_at_host
from ratchet.contracts import paths
from ratchet.contracts.environment import environment
from ratchet.contracts.errors import ConfigurationError
from ratchet.production.by_hand import Done, carry_out
from ratchet.production.reconcile import sentences
from ratchet.production.standing import held
from ratchet.runs.run_index import note_production
from ratchet.store.base import Store
from ratchet.store.ledger import Record
from ratchet.store.opening import open_store
from ratchet.tracking.registry import CHAMPION

_FORMS = {"MODEL": False, "MODEL@VERSION": True, "MODEL[@VERSION]": None}
"""Whether a version is needed, by the form of the argument; None if it may be left out."""
Act = Callable[[Store, str, str | None, str], Record]
"""Changes production: (store, model, version, who). The version is None where none is given."""


def add_verb(
    parser: argparse.ArgumentParser, metavar: str, what: str, *, note: str, act: Callable[[argparse.Namespace], Act]
) -> None:
    """Make the parser that of a verb that changes production. metavar: its argument, of the three forms of `split`.

    note: what comes below its flags in the help. act: what it does, from its flags.
    """
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = note
    parser.add_argument("model", metavar=metavar, help=what)
    parser.add_argument("--because", metavar="WHY", required=True, help="why, for those who read the ledger")
    parser.add_argument("--by", metavar="NAME", default=None, help="who asks for it (default: user@host)")
    add_store(parser)
    parser.set_defaults(run=partial(_change, form=metavar, act=act))


def _change(options: argparse.Namespace, *, form: str, act: Callable[[argparse.Namespace], Act]) -> int:
    """Make the change, and say what became of it; the exit code."""
    model, version = split(options.model, version=_FORMS[form])
    store, who = open_store(options.store), by(options)
    done = carry_out(store, environment().tracking_uri, model, lambda: act(options)(store, model, version, who))
    note_production(store, done.record)
    return show(done)


def by(options: argparse.Namespace) -> str:
    """Who asks for a change. Raises ConfigurationError for an empty name."""
    return user_at_host() if options.by is None else str(options.by)


def split(given: str, *, version: bool | None) -> tuple[str, str | None]:
    """`MODEL@VERSION` -> (`MODEL`, `VERSION`). version: whether it is needed; None if it may be left out."""
    model, separator, number = given.partition("@")
    paths.segment(model)
    if separator and version is not False and number.isdecimal():
        return model, str(int(number))
    if separator or version:
        form = {True: "MODEL@VERSION", False: "MODEL", None: "MODEL or MODEL@VERSION"}[version]
        raise ConfigurationError(
            f"{given!r} is not {form}",
            remedy="write it like search-ranking@3" if version is not False else "leave the version out",
        )
    return model, None


def show(done: Done) -> int:
    """Print what changed, and what became of the alias; the exit code."""
    record, before, found = done.record, done.before, done.reconciled
    who = f"by {record.started_by}: {record.reason}"
    print(f"record {record.number} of the ledger of {record.model}: {record.action} {who}")
    for ban in record.bans:
        lift = f"ratchet release {record.model}@{ban.version} --because WHY"
        print(f"version {ban.version} is banned: no run brings it back before `{lift}`")
    if record.moves_production:
        print(f"production: {f'version {before.version}' if before else 'nothing'} -> version {record.version}")
    if record.holds:
        print(f"the ledger was lost, with the holds and bans that it may have had: {held(record)}")
    for line in sentences(record.model, found):
        print(line)
    if found.unchecked:
        print(f"the record stays; the alias follows with the next run, or with `ratchet doctor {record.model}`")
    elif found.agrees and found.moved is None:
        print(f"the alias {CHAMPION} of {record.model} names version {found.version}")
    return 0 if found.agrees or found.unchecked else 1
