"""From a trained model's folder to an MLflow model: its files, the code that scores it, a signature, and pins."""

import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

from ratchet.contracts.columns import Column
from ratchet.contracts.made_columns import made_columns
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import Pins
from ratchet.model.description import DESCRIPTION, GroupColumn, group_of
from ratchet.model.made_columns import MadeDerive
from ratchet.tracking.mlflow import silence

_NEEDED = ("numpy", "pandas", "pydantic", "safetensors", "torch")
_OF_TREES = ("lightgbm",)


def pack(spec: PipelineSpec, trained: Path, scoring: Path, target: Path, *, pins: Pins, tags: dict[str, str]) -> None:
    """Write the MLflow model of a trained model to `target`, which must not exist.

    tags: kept with the model; `ratchet.model_digest` is the only model that the folder may be loaded as. trained: as
    `ratchet.model.files.lay_out` makes it. scoring: the package that evaluation scored it by. It is an
    artifact, not one of MLflow's code paths, which would go onto the `sys.path` of the process that loads the model.
    """
    silence()
    from mlflow import pyfunc

    with warnings.catch_warnings():
        # MLflow asks for example rows, which would be rows of the source; the signature describes a data frame of rows.
        warnings.simplefilter("ignore")
        pyfunc.save_model(
            path=target,
            python_model=str(Path(__file__).with_name("pyfunc.py")),
            artifacts={"trained": str(trained), "scoring": str(scoring)},
            signature=signature(spec, group_of((trained / DESCRIPTION).read_bytes())),
            pip_requirements=requirements(pins, trees=spec.train.model.is_boosted),
            metadata=tags,
            model_config={"digest": tags["ratchet.model_digest"]},
        )


def signature(spec: PipelineSpec, group: GroupColumn | None) -> Any:
    """The raw columns of a row; those that the model does not read itself may be left out unless derive reads them.

    group: the column whose rows are scored together, where the model reads groups.
    """
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema, TensorSpec

    hidden = {spec.label, *spec.with_role("weight")}
    read = {*MadeDerive(made_columns(spec.columns)).inputs, *([group.name] if group else [])}
    columns = [
        ColSpec(_type(column), name, required=column.is_read or name in read)
        for name, column in spec.columns.items()
        if not column.derived and name not in hidden
    ]
    import numpy as np

    shape = (-1,) if spec.train.objective != "multiclass" else (-1, len(spec.columns[spec.label].allowed or ()))
    return ModelSignature(inputs=Schema(columns), outputs=Schema([TensorSpec(np.dtype("float64"), shape)]))


def _type(column: Column) -> Any:
    """MLflow's type of a column.

    Only texts are enforced. MLflow refuses whole numbers in a column of floats, refuses or changes integers and
    booleans with missing values, changes the resolution of times, and cuts the texts of a list beside a missing one;
    scoring itself checks what it reads, and must see rows as evaluation saw them.
    """
    from mlflow.types import DataType
    from mlflow.types.schema import AnyType

    return DataType.string if column.type == "string" else AnyType()


def requirements(pins: Pins, *, trees: bool = False) -> list[str]:
    """What a server needs beside MLflow, at the versions of the run. trees: whether the model is boosted trees."""
    needed = sorted((*_NEEDED, *_OF_TREES)) if trees else _NEEDED
    return [f"{name}=={(pins.libraries.get(name) or metadata.version(name)).partition('+')[0]}" for name in needed]
