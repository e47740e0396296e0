"""`ratchet check`: reports every error of a pipeline file at once, also those about the Python files beside it.

If the files are right, their code is tried in another process; what cannot be tried is reported, and never passes.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ratchet.cli import own_code
from ratchet.cli.dry_run import Findings, check_own_code
from ratchet.cli.pipelines import add_pipeline, find, overrides
from ratchet.cli.training_reads import training_reads
from ratchet.contracts.checks import SWITCHES
from ratchet.contracts.errors import PipelineInvalid
from ratchet.contracts.exits import ExitCode
from ratchet.contracts.expectations import columns_exist, types_exist
from ratchet.contracts.loading import FILE, load
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.pages.words import count

_EPILOG = (
    "If the files are right, features.py, model.py and metric.py are tried on made-up rows, in another process with "
    "limits of time and memory, and one step is trained. Exit codes: 0 if nothing is wrong, 64 for mistakes, 69 if the "
    "pipeline's own code could not be checked, as without the libraries of the stages."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.epilog = _EPILOG
    add_pipeline(parser)
    parser.add_argument("--explain", action="store_true", help="print the file with every default filled in")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    given = Path(options.pipeline)
    path = given if given.is_file() else find(options.pipeline) / FILE
    spec = read(path, overrides(options.set))
    if options.explain:
        print(explain(spec), end="")
        return 0
    found = check_own_code(spec, path.parent.resolve())
    if found.problems:
        raise PipelineInvalid(found.problems)
    return _print(spec, found, own=any((path.parent / file).is_file() for file in own_code.FILES))


def read(path: Path, given: Mapping[str, Any] | None = None) -> PipelineSpec:
    """Read a pipeline file and the Python files beside it, and run nothing. given: values by dotted key.

    Raises PipelineInvalid with every problem.
    """
    return load(path, given, (types_exist, columns_exist, *own_code.rules(path.parent)))


def _print(spec: PipelineSpec, found: Findings, *, own: bool) -> int:
    """Print what was checked, and what was not. own: whether the pipeline has code of its own."""
    result = "fine"
    if found.unchecked:
        result = "no mistake found, but not all was checked" if own else "the file is fine"
    print(f"{spec.name}: {result} ({count(len(spec.columns), 'column')}, {spec.train.objective}, {spec.metric})")
    for line in training_reads(spec):
        print(f"  {line}")
    for line in found.unchecked:
        print(f"  not checked: {line}")
    return int(ExitCode.UNAVAILABLE if found.unchecked and own else ExitCode.DONE)


def explain(spec: PipelineSpec) -> str:
    """A spec as a pipeline file with all defaults filled in. Loading it gives the same spec."""
    filled = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    for switch in SWITCHES:  # null switches a check off; a missing key does not
        filled["validate"].setdefault(switch, None)
    filled["evaluate"]["metric"] = spec.metric
    filled["register"]["model"] = spec.model_name
    return yaml.safe_dump(filled, sort_keys=False, width=120, default_flow_style=None, allow_unicode=True)
