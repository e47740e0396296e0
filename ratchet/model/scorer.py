"""A model that is scored by the code that it brings with it, as in a service that has loaded the registered version."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ratchet.contracts import errors


class Scorer(Protocol):
    """What scores raw rows: `ratchet.model.scoring.ScoringModel` of any age."""

    @property
    def digest(self) -> str:
        """The model's identity."""
        ...

    def score(self, df: pd.DataFrame) -> NDArray[np.float64]:
        """Scores of raw rows, float64 [rows], [rows, classes] for multiclass."""
        ...


class PackedModel:
    """A model and the package that scores it. Errors of the package's own tree are raised as those of ours."""

    def __init__(self, package: Path, model: Path) -> None:
        """package: as `package.unpack` makes it. model: the folder that `scoring.load` takes."""
        self._errors = f"{package.name}.contracts.errors"
        with self._translation():
            self._model: Scorer = _scoring(package).load(model)
        self.digest = self._model.digest

    def score(self, df: pd.DataFrame) -> NDArray[np.float64]:
        """See Scorer."""
        with self._translation():
            return self._model.score(df)

    @contextmanager
    def _translation(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            names = (kind.__name__ for kind in type(error).__mro__ if kind.__module__ == self._errors)
            ours = next((getattr(errors, name) for name in names if hasattr(errors, name)), None)
            if ours is None:
                raise
            raise ours(error.cause, remedy=error.remedy) from error  # type: ignore[attr-defined] # a RatchetError has them


def _scoring(package: Path) -> ModuleType:
    """A package's scoring module. ratchet.model.pyfunc, which imports nothing of ours, does the same.

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
