"""`ratchet model PIPELINE/RUN --out DIR`: writes the model of a run as register uploads one, whatever the verdict."""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from ratchet.cli.judged_target import add_judged_target
from ratchet.contracts import summaries
from ratchet.contracts.errors import ConfigurationError
from ratchet.model.exporting import export
from ratchet.runs.judged_run import judged_run
from ratchet.store.opening import open_store


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    add_judged_target(parser, "DIR", "a folder that does not exist yet")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    out: Path = options.out
    if out.exists():
        raise ConfigurationError(f"--out {out} exists", remedy="name a folder that does not exist yet")
    store = open_store(options.store)
    run = judged_run(store, options.target)
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="ratchet-") as scratch:
        export(store, run.plan, run.results["train"], run.results["evaluate"], out, scratch=Path(scratch))
    judged = summaries.judgement(run.results["evaluate"])
    print(f"{out}: the model of {options.target} ({judged.verdict}: {judged.reason})")
    return 0
