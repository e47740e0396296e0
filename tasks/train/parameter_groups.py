"""The parameter groups of a pipeline's own module: learning rates and weight decays that differ from ours.

Its method `parameter_groups` returns a list such as `[{"params": [self.scale], "factor": 0.1, "weight_decay": 0.0}]`.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from torch import nn

from ratchet.contracts.errors import ConfigurationError
from ratchet.model.signatures import described, place

_METHOD = "parameter_groups"
_NUMBERS = ("factor", "weight_decay")
_EXAMPLE = '[{"params": [self.scale], "factor": 0.1, "weight_decay": 0.0}]'


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnGroup:
    """factor: of the learning rate. weight_decay: None for that of all others."""

    params: tuple[nn.Parameter, ...]
    factor: float
    weight_decay: float | None


def own_groups(module: nn.Module) -> list[OwnGroup]:
    """What the module's parameter_groups returns; nothing where it has none.

    Raises ConfigurationError, with file and line, for anything but parameters of the module, each of them once.
    """
    method = getattr(module, _METHOD, None)
    if method is None:
        return []
    groups = _Groups(module, method)
    return groups.read(method())


class _Groups:
    def __init__(self, module: nn.Module, method: Any) -> None:
        file = Path(getattr(getattr(method, "__code__", None), "co_filename", "model.py")).name
        self._where = place(method, file)
        self._names = {id(weight): name for name, weight in module.named_parameters()}
        self._seen = set[int]()

    def read(self, returned: Any) -> list[OwnGroup]:
        """The groups that the method has returned."""
        if not isinstance(returned, list | tuple) or not all(isinstance(group, dict) for group in returned):
            self._refuse(f"returned {described(returned)}", "a list of dictionaries", f"return {_EXAMPLE}")
        return [self._group(group) for group in returned]

    def _group(self, group: dict[str, Any]) -> OwnGroup:
        unknown = [str(key) for key in group if key not in ("params", *_NUMBERS)]
        if unknown or "params" not in group:
            wrong = f"has a group with {unknown[0]}" if unknown else "has a group without params"
            self._refuse(wrong, ", ".join(("params", *_NUMBERS)), f"write it as in {_EXAMPLE}")
        for key in _NUMBERS:
            value = group.get(key, 0.0)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not math.isfinite(value) or value < 0:
                self._refuse(f"has a group with {key} {value!r}", "a number from 0 up", f"correct {key}")
        decay = group.get("weight_decay")
        return OwnGroup(
            params=tuple(map(self._parameter, self._listed(group["params"]))),
            factor=float(group.get("factor", 1.0)),
            weight_decay=None if decay is None else float(decay),
        )

    def _listed(self, params: Any) -> list[Any]:
        if isinstance(params, nn.Parameter) or not isinstance(params, Iterable):
            self._refuse(f"has a group whose params are {described(params)}", "a list", "write [self.scale]")
        if isinstance(params, set | frozenset):
            self._refuse("has a group whose params are a set", "a list", "write them in a list: a set has no order")
        return list(params)

    def _parameter(self, weight: Any) -> nn.Parameter:
        if not isinstance(weight, nn.Parameter) or id(weight) not in self._names:
            allowed = f"parameters of the module: {', '.join(self._names.values())}"
            self._refuse(f"has {described(weight)} among params", allowed, "name parameters of self")
        if id(weight) in self._seen:
            name = self._names[id(weight)]
            self._refuse(f"has {name} twice", "each parameter once", f"take {name} out of one group")
        self._seen.add(id(weight))
        return weight

    def _refuse(self, what: str, allowed: str, remedy: str) -> NoReturn:
        raise ConfigurationError(f"{self._where}: {_METHOD} {what}; allowed: {allowed}", remedy=remedy)
