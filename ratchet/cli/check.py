"""`ratchet check`: reports every error of a pipeline file at once, also those about the Python files beside it."""

import argparse
from pathlib import Path

import yaml

from ratchet.cli import own_code
from ratchet.cli.pipelines import add_pipeline, find, overrides
from ratchet.contracts.expectations import columns_exist, types_exist
from ratchet.contracts.loading import FILE, load
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.pages.words import count


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    add_pipeline(parser)
    parser.add_argument("--explain", action="store_true", help="print the file with every default filled in")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    given = Path(options.pipeline)
    path = given if given.is_file() else find(options.pipeline) / FILE
    rules = (types_exist, columns_exist, *own_code.rules(path.parent))
    spec = load(path, overrides(options.set), rules)
    if options.explain:
        print(explain(spec), end="")
    else:
        print(f"{spec.name}: fine ({count(len(spec.columns), 'column')}, {spec.train.objective}, {spec.metric})")
    return 0


def explain(spec: PipelineSpec) -> str:
    """A spec as a pipeline file with all defaults filled in. Loading it gives the same spec."""
    filled = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    for switch in ("volume", "drift"):  # null switches a check off; a missing key does not
        filled["validate"].setdefault(switch, None)
    filled["evaluate"]["metric"] = spec.metric
    filled["register"]["model"] = spec.model_name
    return yaml.safe_dump(filled, sort_keys=False, width=120, default_flow_style=None, allow_unicode=True)
