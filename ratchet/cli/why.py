"""`ratchet why RUN`: prints for each stage of a run whether it was reused or rebuilt, and why."""

import argparse
import sys
from collections.abc import Iterator
from itertools import chain

from ratchet.cli.pipelines import add_store
from ratchet.contracts import summaries
from ratchet.contracts.dates import parse_date
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.request import Outcome
from ratchet.contracts.stages import STAGES
from ratchet.runs.history import is_planned, runs_of
from ratchet.runs.outcomes import outcomes
from ratchet.runs.run_index import newest_ids
from ratchet.store.address import address
from ratchet.store.base import Store
from ratchet.store.opening import open_store

_LISTED = 20
_INDENT = " " * 31


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.add_argument("target", metavar="RUN", help="PIPELINE/RUN_ID, or PIPELINE to list its newest runs")
    parser.add_argument("--date", metavar="D", help="of a PIPELINE: the run of this data date that was planned last")
    add_store(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    store = open_store(options.store)
    pipeline, _, run_id = options.target.partition("/")
    if options.date is not None:
        run_id = _newest_of(store, pipeline, run_id, options.date)
        print(f"{pipeline}/{run_id}")
    if not is_planned(store, pipeline, run_id):
        newest = newest_ids(store, pipeline, _LISTED)
        if not newest:
            raise ConfigurationError(
                f"no run of {pipeline!r} in {options.store}", remedy="check --store and the name of the pipeline"
            )
        if not run_id:
            print("\n".join(f"{pipeline}/{name}" for name in newest))
            return 0
        raise ConfigurationError(
            f"no run {run_id!r} of {pipeline} in {options.store}; newest: {', '.join(newest[-5:])}",
            remedy="name one of them",
        )
    ended = outcomes(store, pipeline, run_id)
    shown = (ended[stage] for stage in STAGES if stage in ended)
    print("\n".join(chain.from_iterable(_lines(each, store) for each in shown)))
    if not ended:
        print(f"no stage of {pipeline}/{run_id} has ended yet")
    sys.stdout.flush()
    return 0


def _newest_of(store: Store, pipeline: str, run_id: str, day: str) -> str:
    """The run of a date that was planned last. Airflow names a run by when it is due, or when a person began it."""
    if run_id:
        raise ConfigurationError("--date is of a pipeline, and here a run is named", remedy="leave one of them out")
    found = runs_of(store, pipeline, parse_date(day, "--date"))
    if not found:
        raise ConfigurationError(
            f"no run of {pipeline!r} of {day} in {store.uri}",
            remedy="see `ratchet nights` for the dates that have runs",
        )
    return found[-1]


def _lines(outcome: Outcome, store: Store) -> Iterator[str]:
    """How a stage ended, in a line; below it a line for each further reason, and the log of a stage that failed."""
    state = "reused" if outcome.cached else {"done": "rebuilt"}.get(outcome.state, outcome.state)
    first, *more = outcome.because.splitlines() or [""]
    first = f"tried again by itself: {first}" if outcome.again else first
    yield f"{outcome.stage:<9} {state:<8} {outcome.seconds:7.1f} s  {first}".rstrip()
    yield from (f"{_INDENT}{line}" for line in more)
    if outcome.stage == "train" and outcome.result and (begun := summaries.trained(outcome.result).warm_start):
        yield f"{_INDENT}began with {begun.parent.title}: {begun.in_words}"
    if outcome.state == "failed" and outcome.log:
        yield f"{_INDENT}log {address(store, outcome.log)}"
