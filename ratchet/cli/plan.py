"""`ratchet plan`: shows what a run would do, without running it."""

import argparse

from ratchet.cli.pipelines import add_pipeline, add_store, find, overrides
from ratchet.contracts.dates import parse_date
from ratchet.contracts.environment import environment
from ratchet.contracts.loading import load
from ratchet.runs.preview import preview


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    add_pipeline(parser)
    add_store(parser)
    parser.add_argument("--date", required=True, metavar="D", help="the data date")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    folder = find(options.pipeline)
    spec = load(folder, overrides(options.set))
    planned = preview(
        folder=folder,
        spec=spec,
        data_date=parse_date(options.date, "--date"),
        store_uri=options.store,
        tracking_uri=environment().tracking_uri,
    )
    print(f"{spec.name} {options.date}: {planned.days} days, {planned.source_bytes / 1e6:.1f} MB of source")
    print(f"baseline: {planned.baseline}; production: {planned.promotion}")
    for line in planned.stages:
        seconds = f"about {line.seconds:.0f} s" if line.seconds is not None else "unknown"
        rows = f"{line.rows:,} rows" if line.rows is not None else ""
        print(f"{line.stage:<9} {line.state:<8} {seconds:<14} {rows:<16} {line.because}")
    print(f"in all about {planned.seconds:.0f} s, {planned.gpu_hours:.2f} GPU hours")
    return 0
