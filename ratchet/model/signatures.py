"""Functions of a pipeline's own files: where they are, whether they can be called, and what they return."""

import inspect
from collections.abc import Callable
from typing import Any

from ratchet.contracts.errors import ConfigurationError

_SHAPED = {"Tensor": "a tensor", "Parameter": "a tensor", "ndarray": "an array"}


def fits(function: Callable[..., object], allowed: str, arguments: tuple[object, ...], where: str) -> None:
    """Raise ConfigurationError if a function cannot be called with these arguments. allowed: the call, as text."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # built into Python or torch: calling it shows whether it fits
    try:
        signature.bind(*arguments)
    except TypeError as error:
        name = allowed.partition("(")[0]
        raise ConfigurationError(
            f"{where}: {name}{signature} has the wrong parameters: {error}; allowed: {allowed}",
            remedy=f"define it as {allowed}",
        ) from error


def required(function: Callable[..., object]) -> list[str] | None:
    """The parameters without a default that can be given by name; None where nothing says so.

    One that can only be given by place has a slash after its name.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None  # built into Python or torch
    many = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        one.name + ("/" if one.kind is inspect.Parameter.POSITIONAL_ONLY else "")
        for one in parameters
        if one.default is inspect.Parameter.empty and one.kind not in many
    ]


def takes(function: Callable[..., object], count: int) -> bool:
    """Whether a function can be called with this many values, by place."""
    try:
        inspect.signature(function).bind(*(None,) * count)
    except TypeError:
        return False
    return True


def place(found: Any, file: str) -> str:
    """`file:line` of a function or a class; of a class its constructor, if it has one."""
    own = vars(found).get("__init__", found) if isinstance(found, type) else found
    code = getattr(inspect.unwrap(own), "__code__", None)
    if code is not None:
        return f"{file}:{code.co_firstlineno}"
    try:
        return f"{file}:{inspect.getsourcelines(found)[1]}"
    except (OSError, TypeError):
        return f"{file}:1"


def described(value: object) -> str:
    """A value by its type, a tensor or an array by its shape: `a tensor of shape [3, 2]`, `an int`."""
    if type(value).__name__ in _SHAPED and hasattr(value, "shape"):
        return f"{_SHAPED[type(value).__name__]} of shape {list(value.shape)}"
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
