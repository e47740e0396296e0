"""`ratchet scores PIPELINE/RUN --out FILE`: writes the held-out rows of a run with the scores of both models."""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from ratchet.cli.judged_target import add_judged_target
from ratchet.contracts import summaries
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.runs.judged_run import judged_run
from ratchet.runs.lost_versions import why_gone
from ratchet.store.opening import open_store

_KINDS = (".parquet", ".csv")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    add_judged_target(parser, "FILE", "a file that ends in .parquet or .csv")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    out: Path = options.out
    if out.suffix not in _KINDS:
        raise ConfigurationError(f"--out {out} is of no known kind; allowed: {', '.join(_KINDS)}", remedy="rename it")
    from ratchet.model.scored_rows import write_scored_rows

    store = open_store(options.store)
    run = judged_run(store, options.target)
    ingested, evaluated = run.results["ingest"], run.results["evaluate"]
    removed = why_gone(store, run.plan.spec.name, summaries.snapshot(ingested))
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        with TemporaryDirectory(prefix="ratchet-") as scratch:
            rows = write_scored_rows(store, ingested, evaluated, out, Path(scratch))
    except (ConfigurationError, CorruptArtifact) as error:
        if line := next(removed, None):
            raise ConfigurationError(f"{options.target}: {line}", remedy="name a run that has none of them") from error
        raise
    print(f"{out}: {rows:,} held-out rows of {options.target}")
    return 0
