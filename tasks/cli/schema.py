"""`ratchet schema`: the JSON Schema of pipeline.yaml, from the classes that check it."""

import argparse
import json

from tasks.contracts.pipeline import PipelineSpec


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.set_defaults(run=_run)


def _run(_: argparse.Namespace) -> int:
    print(json.dumps(schema(), indent=2))
    return 0


def schema() -> dict[str, object]:
    """JSON Schema 2020-12 of a pipeline file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **PipelineSpec.model_json_schema(by_alias=True, mode="validation"),
        "title": "Ratchet pipeline",
    }
