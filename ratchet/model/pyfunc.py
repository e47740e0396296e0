"""The registered model: MLflow runs this file when it loads one ("models from code"; nothing is unpickled).

It only hands rows to the code that comes with the model, so what is served scores as evaluation did. That code has a
package name of its own: `sys.path` and what the process imports under other names stay as they are.
"""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc import PythonModel, PythonModelContext
from numpy.typing import NDArray


class RatchetModel(PythonModel):  # type: ignore[misc] # MLflow's types are not looked at
    """Scores raw rows."""

    def __init__(self) -> None:
        # Where two threads load two versions at once, MLflow can use one object for both; each has its own context.
        self._models: WeakKeyDictionary[PythonModelContext, Any] = WeakKeyDictionary()

    def load_context(self, context: PythonModelContext) -> None:
        """Load the weights, the description and the pipeline's code that were registered, and refuse any others."""
        scoring = _scoring(Path(context.artifacts["scoring"]))
        model = scoring.load(Path(context.artifacts["trained"]))
        registered = (context.model_config or {}).get("digest", model.digest)
        if model.digest != registered:
            raise ValueError(
                f"weights.safetensors and description.json are those of model {model.digest[:12]}, and"
                f" {registered[:12]} was registered; to do: restore both files from the same version"
            )
        self._models[context] = model

    def predict(self, context: PythonModelContext, model_input: pd.DataFrame) -> NDArray[np.float64]:
        """Scores of a data frame of raw rows: [rows], for multiclass [rows, classes]."""
        scores: NDArray[np.float64] = self._models[context].score(model_input)
        return scores


def _scoring(package: Path) -> ModuleType:
    """The scoring module of a package, whose name says its content: another version with this name has this code.

    A load that fails leaves nothing behind: what comes next may have the same package whole, in another folder. Threads
    that load one package take turns.
    """
    while True:
        spec = ModuleSpec(package.name, None, is_package=True)
        spec.submodule_search_locations = [str(package)]
        shared = sys.modules.setdefault(package.name, module_from_spec(spec))
        with vars(shared).setdefault("loading", RLock()):
            if sys.modules.get(package.name) is not shared:
                continue  # the load of another thread has failed
            try:
                return import_module(f"{package.name}.model.scoring")
            except BaseException as error:
                made = [name for name in list(sys.modules) if f"{name}.".startswith(f"{package.name}.")]
                for name in sorted(made, reverse=True):  # the package last: without it, another thread begins its own
                    sys.modules.pop(name, None)
                if isinstance(error, Exception) and list(shared.__path__) != [str(package)]:
                    continue  # it was the folder of another thread that failed
                raise


set_model(RatchetModel())
