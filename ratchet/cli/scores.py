"""`ratchet scores PIPELINE/RUN --out FILE`: writes the held-out rows of a run with the scores of both models."""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from ratchet.cli.judged_target import add_judged_target
from ratchet.contracts.errors import ConfigurationError
from ratchet.runs.judged_run import judged_run
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
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="ratchet-") as scratch:
        rows = write_scored_rows(store, run.results["ingest"], run.results["evaluate"], out, Path(scratch))
    print(f"{out}: {rows:,} held-out rows of {options.target}")
    return 0
