"""The arguments that name a pipeline and a store, and that override keys for one run."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ratchet.checkout import PIPELINES
from ratchet.contracts.environment import environment, variable
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.loading import FILE
from ratchet.contracts.yaml_lines import parse_scalar

DEFAULT_STORE = ".ratchet/store"
PIPELINE_HELP = (
    f"the folder of the pipeline, its pipeline.yaml, or its name in ${variable('pipelines')} or dags/pipelines"
)


def add_pipeline(parser: argparse.ArgumentParser) -> None:
    """Add the PIPELINE argument, and the flag that overrides keys of the file."""
    parser.add_argument("pipeline", metavar="PIPELINE", help=PIPELINE_HELP)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a key of pipeline.yaml, as in --set train.epochs=1; give it once for each key",
    )


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add the --store flag."""
    parser.add_argument(
        "--store",
        default=environment().store or DEFAULT_STORE,
        metavar="DIR",
        help=f"the store, a folder or s3://bucket/prefix (default: ${variable('store')}, or {DEFAULT_STORE})",
    )


def find(name: str) -> Path:
    """Find the folder of a pipeline. Raises ConfigurationError that lists the known pipelines."""
    if not name.strip():
        raise ConfigurationError(
            "PIPELINE is empty, as from a shell variable that is not set", remedy="name a pipeline"
        )
    given = Path(name)
    if given.name == FILE and given.is_file():
        return given.resolve().parent
    places = [place for place in (environment().pipelines, PIPELINES) if place is not None]
    for folder in (given, *(place / name for place in places)):
        if (folder / FILE).is_file():
            return folder.resolve()
    known = ", ".join(sorted({path.parent.name for place in places for path in place.glob(f"*/{FILE}")})) or "none"
    raise ConfigurationError(
        f"{name}: no pipeline found; allowed: a folder with a {FILE}, the file, or one of: {known}",
        remedy=f"create {name}/{FILE}, or correct the name",
    )


def overrides(pairs: list[str]) -> Mapping[str, Any]:
    """Parse `["train.epochs=1"]` as `{"train.epochs": 1}`. Raises ConfigurationError for other text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise ConfigurationError(f"--set {pair!r} is not KEY=VALUE", remedy="write it like --set train.epochs=1")
        if not value.strip():
            raise ConfigurationError(
                f"--set {key} has no value, as from a shell variable that is not set",
                remedy=f"write a value, or {key}=null for none",
            )
        try:
            found[key] = parse_scalar(value)
        except ValueError as error:
            raise ConfigurationError(f"--set {key}: {error}", remedy="write a plain value, as in the file") from None
    return found


def as_text(changed: Mapping[str, Any]) -> dict[str, str]:
    """Overrides as a plan, the ledger and the report record them."""
    return {key: str(value) for key, value in changed.items()}
