"""`ratchet new-model`: writes a model.py to begin with."""

import argparse
from pathlib import Path

from ratchet.checkout import ROOT
from ratchet.cli.pipelines import PIPELINE_HELP, find
from ratchet.contracts.boosting import keys_of_trees
from ratchet.contracts.errors import ConfigurationError, PipelineInvalid
from ratchet.contracts.loading import load

_KIND = "model.py:MyModule"
_TEMPLATE = ROOT / "ratchet" / "model" / "own_template.py"
_EPILOG = (
    "The file has comments on all that a module can ask for. It passes `ratchet check`, and trains as it is. "
    "Nothing is overwritten. Exit codes: 0 if it was written, 64 if there is a model.py already."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.epilog = _EPILOG
    parser.add_argument("pipeline", metavar="PIPELINE", help=PIPELINE_HELP)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    folder = find(options.pipeline)
    target = write(folder)
    print(f"{target} is written")
    if keys := _refused(folder):
        print(f"  first remove from train.model in pipeline.yaml, as only lightgbm has them: {', '.join(keys)}")
    print(f'  1. name it in pipeline.yaml:  train: {{model: {{kind: "{_KIND}"}}}}')
    print(f"  2. try it:                    ratchet check {options.pipeline}")
    print(f"  before 1, try it by:          ratchet check {options.pipeline} --set train.model.kind={_KIND}")
    return 0


def _refused(folder: Path) -> tuple[str, ...]:
    """The keys of the pipeline that a module of its own refuses; none of a pipeline that is invalid in itself."""
    try:
        return keys_of_trees(load(folder))
    except PipelineInvalid:
        return ()


def write(folder: Path) -> Path:
    """Write the template as model.py to a pipeline's folder. Raises ConfigurationError if there is one."""
    target, template = folder / "model.py", _TEMPLATE.read_text(encoding="utf-8")
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(template)
    except FileExistsError as error:
        raise ConfigurationError(f"{target} is there already", remedy="edit it, or move it away first") from error
    return target
