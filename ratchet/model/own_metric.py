"""The metrics of a pipeline by name: ours, and the functions of its metric.py.

A function is called with arrays that it cannot change. It is called twice the first time: one that gives two values for
the same rows would make a verdict that nobody can repeat.

A change here violates the promise of the project when a function that fails, or returns no number, gives a value.
"""

from collections.abc import Callable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.gate import OwnMetric, lower_is_better, own_metric
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.metrics import metrics
from ratchet.metrics.metrics import Floats, Measurement, Rows
from ratchet.metrics.own import Function, of_groups, of_rows
from ratchet.model.signatures import described, fits, place
from ratchet.runtime.user_code import attribute, blame, is_fault, load_module


class PipelineMetrics:
    """The metrics of one pipeline. Raises ConfigurationError, with file and line, for a function that fails."""

    def __init__(self, spec: PipelineSpec, folder: Path) -> None:
        self._objective = spec.train.objective
        self._weighted = bool(spec.with_role("weight"))
        self._functions: Mapping[str, Function] = {
            name: _loaded(folder, found, self.call_of(spec, found.function)) for name, found in spec.own_metrics.items()
        }

    @staticmethod
    def call_of(spec: PipelineSpec, name: str) -> str:
        """How a function is called: with the weights of rows where the pipeline has them and no group carries them."""
        weighted = bool(spec.with_role("weight")) and spec.train.objective != "ranking"
        return f"{name}(y, score, group{', weight' if weighted else ''})"

    def is_of_groups(self, metric: str) -> bool:
        """Whether a metric measures groups, each as a whole."""
        return own_metric(metric) is not None and self._objective == "ranking"

    def measure(self, metric: str, rows: Rows, score: Floats) -> Measurement | None:
        """Measure one metric of one model, as ratchet.metrics.metrics.measure does; None if it has no value."""
        function = self._functions.get(metric)
        if function is None:
            return metrics.measure(metric, rows, score)
        if not (rows.weights > 0).any():
            return None
        lower = lower_is_better(metric)
        if self.is_of_groups(metric):
            return of_groups(function, rows, score, lower_is_better=lower)
        labels = [rows.label > 0, rows.label <= 0] if self._objective == "binary" else [np.ones(len(rows.label), bool)]
        information = np.stack([rows.weights_of_units(mask) for mask in labels], axis=1)
        return of_rows(function, rows, score, lower_is_better=lower, information=information)

    def value(self, metric: str, rows: Rows, score: Floats) -> float | None:
        """The value alone, with one call of a function that measures all rows; None if it has none."""
        function = self._functions.get(metric)
        if function is None or self.is_of_groups(metric):
            measured = self.measure(metric, rows, score)
            return measured.value if measured else None
        found = function(rows, score)
        return found if np.isfinite(found) else None


def _loaded(folder: Path, named: OwnMetric, call: str) -> Function:
    """A function of the folder, guarded. call: how it is called, as text."""
    module = load_module(folder, named.file)
    if module is None:
        raise ConfigurationError(
            f"evaluate.metric: there is no {named.file} in the pipeline's folder", remedy=f"write {named.file}"
        )
    function = attribute(module, named.function, named.file)
    if not callable(function):
        raise ConfigurationError(
            f"{named.file}: {named.function} is {described(function)}, not a function", remedy=f"define {call}"
        )
    where = place(function, named.file)
    weighted = call.endswith("weight)")
    fits(function, call, (None,) * (4 if weighted else 3), where)
    return _Guarded(function, folder, named, call, where, weighted=weighted)


class _Guarded:
    """A function of the pipeline's that returns one number, the same for the same rows."""

    def __init__(
        self, function: Callable[..., Any], folder: Path, named: OwnMetric, call: str, where: str, *, weighted: bool
    ) -> None:
        self._function, self._folder, self._named = function, folder, named
        self._call, self._where, self._weighted, self._tried = call, where, weighted, False

    def __call__(self, rows: Rows, score: Floats) -> float:
        group = None if rows.offsets is None else np.repeat(np.arange(len(rows.offsets) - 1), np.diff(rows.offsets))
        given = [rows.label, score, group, *([rows.weights] if self._weighted else [])]
        found = self._number(given)
        if not self._tried:
            self._tried = True
            again = self._number(given)
            if found != again and not (np.isnan(found) and np.isnan(again)):
                name = self._named.function
                raise ConfigurationError(
                    f"{self._where}: {name} returned {found:.10g} and then {again:.10g} for the same rows",
                    remedy="draw no random numbers, and keep nothing between calls",
                )
        return found

    def _number(self, given: list[Any]) -> float:
        try:
            found = self._function(*map(_fixed, given))
        except BaseException as error:
            if not is_fault(error):
                raise
            cause = blame(error, self._folder, self._named.file)
            raise ConfigurationError(
                cause, remedy=f"correct {self._named.function}; it is called as {self._call}"
            ) from error
        single = found.item() if isinstance(found, np.ndarray) and found.ndim == 0 else found
        if isinstance(single, bool | np.bool_) or not isinstance(single, Real):
            raise ConfigurationError(
                f"{self._where}: {self._named.function} returned {described(found)}", remedy="return one number"
            )
        return float(single)


def _fixed(array: Any) -> Any:
    """The same values in an array that cannot be written to."""
    if array is None:
        return None
    view = array.view()
    view.flags.writeable = False
    return view
