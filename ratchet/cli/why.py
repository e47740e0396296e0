"""`ratchet why RUN`: prints for each stage of a run whether it was reused or rebuilt, and why."""

import argparse
import sys

from ratchet.cli.pipelines import add_store
from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.stages import STAGES
from ratchet.runs.outcomes import outcomes
from ratchet.store.base import Store
from ratchet.store.opening import open_store


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.add_argument("target", metavar="RUN", help="PIPELINE/RUN_ID, or PIPELINE to list its newest runs")
    add_store(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    store = open_store(options.store)
    pipeline, _, run_id = options.target.partition("/")
    if not run_id:
        for name in _runs(store, pipeline)[-20:]:
            print(f"{pipeline}/{name}")
        return 0
    ended = outcomes(store, pipeline, run_id)
    if not ended:
        known = ", ".join(_runs(store, pipeline)[-5:]) or "none"
        raise ConfigurationError(
            f"no run {run_id!r} of {pipeline} in {options.store}; newest: {known}", remedy="name one of them"
        )
    for stage in STAGES:
        if outcome := ended.get(stage):
            state = "reused" if outcome.cached else {"done": "rebuilt"}.get(outcome.state, outcome.state)
            print(f"{stage:<9} {state:<8} {outcome.seconds:7.1f} s  {outcome.because}")
    sys.stdout.flush()
    return 0


def _runs(store: Store, pipeline: str) -> list[str]:
    entries = sorted(store.list(paths.runs(pipeline)), key=lambda entry: entry.modified_ns)
    return [run_id for entry in entries if (run_id := paths.run_of_plan(entry.key))]
