"""`ratchet`: the command line. Each verb is a module, which is imported only for that verb."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from ratchet.checkout import ROOT
from ratchet.cli.pipes import reader_may_leave
from ratchet.contracts.errors import PipelineInvalid, RatchetError
from ratchet.contracts.exits import ExitCode
from ratchet.contracts.release_number import RELEASE

_VERBS = {
    "check": "report every error of a pipeline file, and of the code beside it, at once",
    "plan": "show what a run would do: the stages, cached or not, and why",
    "run": "run all stages on this machine, without Airflow",
    "reproduce": "build a registered version again from its record, and say how like the rebuild is",
    "stage": "run one stage from its request file, as a container does",
    "why": "show for each stage of a run whether it was reused or rebuilt, and why",
    "nights": "show a line for each date: verdict, gain, and whether the run would promote",
    "gate-check": "simulate nights on a run's own scores, and say whether the gate keeps its word",
    "scores": "write the held-out rows of a run with the scores of both models to a file",
    "model": "write the model of a run as an MLflow model, also of one that was rejected",
    "history": "show every change of a model's production: versions, time in office, who and why",
    "rollback": "put an earlier version back into production, and ban those that it replaces",
    "hold": "promote nothing until it is released",
    "release": "end a hold, or let a version return that was rolled back",
    "promote": "put a registered version into production by hand",
    "doctor": "check that the installation, or production of a model, is well; repair what is safe",
    "data": "show the days of a pipeline's data, let in one that was refused, and keep one out",
    "profile": "show what the rows of days are like, and how two days differ; suggest a pipeline file for data",
    "verify": "compare the bytes of everything that a pipeline has published with their digests",
    "gc": "say what of a store nothing needs any more, and delete it with --apply",
    "reap": "end containers that no run follows any more",
    "host-gone": "say that a host is gone for good, so that nothing waits for its containers",
    "new-model": "write a model.py to begin with, beside a pipeline.yaml",
    "sample": "write example data",
    "schema": "print the JSON Schema of pipeline.yaml, for editors",
}
_CHECKOUT_VERBS = {"status": ("local.status", "show the state of the servers of `make serve` and `make demo`")}
"""Verbs of the embedded set-up, (module, summary). Wheels and images do not contain them; see docs/adr/020."""


def _verbs() -> dict[str, tuple[str, str]]:
    """(module, summary) by verb. A dash in a verb is an underscore in the name of its module."""
    ours = {verb: (f"ratchet.cli.{verb.replace('-', '_')}", summary) for verb, summary in _VERBS.items()}
    return {**ours, **(_CHECKOUT_VERBS if (ROOT / "local" / "status.py").is_file() else {})}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb. Returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    with reader_may_leave():
        try:
            return _run(given)
        except ModuleNotFoundError as error:
            return _missing_library(error, given[0])


def _run(given: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="ratchet", description="Retrains models every night, and promotes only a model that is better."
    )
    parser.add_argument("--version", action="version", version=f"ratchet {RELEASE}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb, (module, summary) in _verbs().items():
        added = verbs.add_parser(verb, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if given[:1] == [verb]:
            import_module(module).configure(added)
    options = parser.parse_args(given)
    try:
        return int(options.run(options))
    except PipelineInvalid as error:
        print(error.cause, file=sys.stderr)
        count = len(error.problems)
        print(f"{count} problem{'s' if count > 1 else ''}; no stage has run", file=sys.stderr)
        return int(error.code)
    except RatchetError as error:
        print(f"ratchet {options.verb}: {error}", file=sys.stderr)
        return int(error.code)
    except KeyboardInterrupt:
        print(
            f"ratchet {options.verb}: stopped; published results stay, and the next run uses them",
            file=sys.stderr,
        )
        return 130


def _missing_library(error: ModuleNotFoundError, verb: str) -> int:
    """Print one line about a library that some verbs need and `pip install ratchet` does not install; the exit code."""
    name = (error.name or "").partition(".")[0]
    if name in {"", "ratchet", "local"}:
        raise error
    print(
        f"ratchet {verb}: needs {name}, which is not installed; to do: install the wheel ratchet-stages (make wheels)",
        file=sys.stderr,
    )
    return int(ExitCode.BAD_CONFIGURATION)


def end(code: int) -> NoReturn:
    """End this process. A stage ends without clean-up, because that of torch and other libraries takes a second."""
    if sys.argv[1:2] != ["stage"]:
        sys.exit(code)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    end(main())
