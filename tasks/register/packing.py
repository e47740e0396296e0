"""From a trained model's folder to an MLflow model: its files, our code that scores, a signature, and pins."""

import shutil
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

from ratchet.checkout import ROOT
from ratchet.contracts.columns import Column
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import Pins
from ratchet.runtime.code import code_parts

SCORING = "ratchet.model.scoring"
_NEEDED = ("numpy", "pandas", "pydantic", "safetensors", "torch")


def pack(spec: PipelineSpec, trained: Path, target: Path, *, pins: Pins, tags: dict[str, str], scratch: Path) -> None:
    """Write the MLflow model of a trained model (see scoring.files.lay_out) to `target`, which must not exist."""
    from mlflow import pyfunc

    with warnings.catch_warnings():
        # MLflow would have type hints on predict; a data frame of raw rows is described by the signature instead.
        warnings.simplefilter("ignore")
        pyfunc.save_model(
            path=target,
            python_model=str(Path(__file__).with_name("pyfunc.py")),
            artifacts={"trained": str(trained)},
            code_paths=[str(scoring_code(scratch / "code"))],
            signature=signature(spec),
            pip_requirements=requirements(pins),
            metadata=tags,
        )


def scoring_code(folder: Path) -> Path:
    """Our modules that scoring needs, and no others, below `folder`. Returns the folder of the package."""
    for part in code_parts(SCORING):
        module = part.removeprefix("code.")
        path = ROOT.joinpath(*module.split("."))
        source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        target = folder / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    for package in [folder / "ratchet", *(path for path in (folder / "ratchet").rglob("*") if path.is_dir())]:
        (package / "__init__.py").touch()
    return folder / "ratchet"


def signature(spec: PipelineSpec) -> Any:
    """The raw columns of a row; those that the model does not read itself may be left out unless derive reads them."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema, TensorSpec

    hidden = {spec.label, *spec.with_role("weight")}
    columns = [
        ColSpec(_type(column), name, required=column.is_feature)
        for name, column in spec.columns.items()
        if not column.derived and name not in hidden
    ]
    import numpy as np

    shape = (-1,) if spec.train.objective != "multiclass" else (-1, len(spec.columns[spec.label].allowed or ()))
    return ModelSignature(inputs=Schema(columns), outputs=Schema([TensorSpec(np.dtype("float64"), shape)]))


def _type(column: Column) -> Any:
    """MLflow's type of a column.

    Only texts and float64 are enforced. MLflow refuses or changes integers and booleans with missing values, and the
    resolution of times; scoring itself checks what it reads, and must see rows as evaluation saw them.
    """
    from mlflow.types import DataType
    from mlflow.types.schema import AnyType

    return {"string": DataType.string, "float64": DataType.double}.get(column.type) or AnyType()


def requirements(pins: Pins) -> list[str]:
    """What a server needs beside MLflow, at the versions of the run."""
    return [f"{name}=={(pins.libraries.get(name) or metadata.version(name)).partition('+')[0]}" for name in _NEEDED]
