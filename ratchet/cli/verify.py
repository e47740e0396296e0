"""`ratchet verify`: compares the bytes of everything that a pipeline has published with their digests."""

import argparse

from ratchet.cli.pipelines import add_store
from ratchet.contracts.exits import ExitCode
from ratchet.pages.words import count
from ratchet.runs.compared import compare_all
from ratchet.store.opening import open_store


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("pipeline", help="the name of a pipeline")
    add_store(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    store = open_store(options.store)
    results = files = damaged = removed = unread = 0
    for one in compare_all(store, options.pipeline):
        results, files, damaged = results + 1, files + one.files, damaged + len(one.damaged)
        removed += one.removed
        if one.unread:
            unread += 1
            print(f"{one.prefix}: not compared: {one.unread}")
        if one.damaged:
            print(f"{one.prefix}: {', '.join(one.damaged)} damaged")
    print(f"{count(results, 'result')} with {count(files, 'file')} compared, {damaged} damaged")
    if removed:
        print(f"{count(removed, 'file')} of days that were purged or expired: gone, as they should be")
    if damaged:
        print("to do: run the dates again that use them, which makes what is damaged again")
    if unread:
        print(f"to do: compare {count(unread, 'result')} of another release with that release")
    return ExitCode.BAD_CONFIGURATION if damaged else ExitCode.UNAVAILABLE if unread else ExitCode.DONE
