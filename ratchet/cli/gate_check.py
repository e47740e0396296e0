"""`ratchet gate-check PIPELINE`: simulates nights, and says whether the gate of the pipeline keeps its word."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.progress import Progress

from ratchet.cli.json_error import error_object
from ratchet.cli.pipelines import add_pipeline, add_store, find, overrides
from ratchet.contracts.dates import parse_date
from ratchet.contracts.errors import ConfigurationError, RatchetError
from ratchet.contracts.exits import ExitCode
from ratchet.contracts.gate import own_metric
from ratchet.contracts.loading import FILE, load
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.store.opening import open_store

LEAST, MOST = 200, 100_000
SECONDS = 300
_EPILOG = f"""\
Nights are drawn with replacement from the held-out rows of a run, as many groups (rows where there are none) as that
night had, and the gate of pipeline.yaml decides about each:

  exchanged   candidate and production change places at random. Neither is better: every promotion is false.
  at-margin   the candidate is better by exactly gate.min_gain, and differs from production as it really does, with all
              its skew: more promotions than 1 - gate.confidence (over evaluate.holdout_days) are false.
  by COLUMN   both once more, with all rows of one value drawn together. It is tried for columns whose rows vary
              together.
  repeated    one night is run 2, 5 and 20 times with candidates that are no better: promoted at least once.
  power       the candidate is better by more and more: how often it is promoted, and which gain four nights in five
              see.
  slices      the candidate loses 1, 2 and 3 times gate.max_slice_loss on one value or bin of each column of
              evaluate.slices, and on what each expression chooses: how often it is stopped.

The gate fails if it promotes more often than it says, by more than two Monte Carlo standard errors; the command then
ends with {int(ExitCode.BAD_CONFIGURATION)}, as it does where there is no run to check.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    add_pipeline(parser)
    add_store(parser)
    parser.add_argument("--run", dest="run_id", metavar="RUN_ID", help="the run (default: the newest with a verdict)")
    parser.add_argument("--date", metavar="D", help="the newest run with a verdict of this date")
    parser.add_argument("--nights", type=int, default=2000, metavar="N", help="nights of each kind (default: 2000)")
    parser.add_argument(
        "--seconds",
        type=int,
        default=SECONDS,
        metavar="T",
        help=f"begin no more nights after so long; a metric that is measured on rows has fewer (default: {SECONDS})",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="another seed draws other nights (default: 0)")
    parser.add_argument(
        "--workers", type=int, metavar="W", help="processes that simulate (default: the cores of this machine)"
    )
    parser.add_argument("--html", metavar="FILE", type=Path, help="write an HTML page with the power curve too")
    parser.add_argument(
        "--json", action="store_true", help="print JSON on standard output, and nothing else: figures, or an error"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        return _check(options)
    except RatchetError as error:
        if options.json:
            print(json.dumps({"error": error_object(error)}, indent=2))
        raise


def _check(options: argparse.Namespace) -> int:
    from ratchet.runs.judged_scores import newest_judged, read
    from ratchet.verdict.gate_check.check import check_gate
    from ratchet.verdict.gate_check.gate import GateKeys
    from ratchet.verdict.gate_check.in_words import as_json, in_words
    from ratchet.verdict.gate_check.page import page

    _refuse(options)
    spec = _spec(options)
    store = open_store(options.store)
    day = parse_date(options.date, "--date").isoformat() if options.date is not None else None
    plan = newest_judged(store, spec.name if spec else options.pipeline, run_id=options.run_id, day=day)
    spec = spec or plan.spec
    if own_metric(spec.metric):
        raise ConfigurationError(
            f"{spec.metric} is a function of the pipeline's, which no simulated night can call",
            remedy="check the gate of a metric of Ratchet on this run: --set evaluate.metric=NAME",
        )
    with TemporaryDirectory(prefix="ratchet-") as scratch:
        sample = read(store, plan, spec, Path(scratch))
    with _progress() as progress:
        found = check_gate(
            sample,
            GateKeys.of(spec),
            nights=options.nights,
            seconds=options.seconds,
            seed=options.seed,
            workers=options.workers or len(os.sched_getaffinity(0)),
            progress=progress,
        )
    if options.html:
        options.html.write_text(page(spec.name, found), encoding="utf-8")
    if options.json:
        print(json.dumps({"pipeline": spec.name, **as_json(found)}, indent=2))
    else:
        print("\n".join(in_words(spec.name, found)))
        if options.html:
            print(f"page {options.html}")
    return int(ExitCode.DONE if found.passed else ExitCode.BAD_CONFIGURATION)


def _refuse(options: argparse.Namespace) -> None:
    """Raise ConfigurationError for numbers that make no check."""
    if not LEAST <= options.nights <= MOST:
        raise ConfigurationError(
            f"--nights {options.nights}: allowed: {LEAST} to {MOST}", remedy="give 2000, or more for a sharper answer"
        )
    for flag, value in (
        ("--seed", options.seed),
        ("--workers", options.workers),
        ("--seconds", options.seconds),
    ):
        if value is not None and value < 0:
            raise ConfigurationError(f"{flag} {value}: allowed: 0 or more", remedy=f"leave {flag} out for the default")


def _spec(options: argparse.Namespace) -> PipelineSpec | None:
    """Today's file, or None where there is no file of this name: then the run's own keys decide."""
    changed = overrides(options.set)
    try:
        folder = find(options.pipeline)
    except ConfigurationError:
        if changed or "/" in options.pipeline or options.pipeline.endswith(FILE) or not options.pipeline.strip():
            raise
        return None
    return load(folder, changed)


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error while nights are simulated, if it is a terminal."""
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("simulating nights", total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield report
