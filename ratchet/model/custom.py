"""The network of a pipeline's own file, such as model.py: what it asks for, and what it has to be."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from ratchet.contracts import own_module
from ratchet.contracts.errors import ConfigurationError
from ratchet.model.description import Description
from ratchet.model.layers import Layers
from ratchet.model.signatures import described, place, required, takes
from ratchet.runtime.user_code import blame, is_fault, load_module


def custom_body(description: Description, folder: Path) -> Callable[[int], Layers] | None:
    """What makes the pipeline's own module, given its number of inputs; None for our own architectures.

    Raises ConfigurationError, with file and line, if it is not there, fails, asks for what does not exist, or makes no
    torch module; the module raises it for an output of a wrong shape.
    """
    file, _, name = description.architecture.kind.partition(":")
    if not name:
        return None
    module = load_module(folder, file)
    if module is None:
        raise ConfigurationError(
            f"train.model.kind: there is no {file} in the pipeline's folder", remedy=f"write {file}"
        )
    made_by = _named(module, name, file)

    def make(inputs: int) -> Layers:
        where = place(made_by, file)
        asks = _asks(made_by, name, own_module.CONSTRUCTOR, where)
        given = {
            "inputs": inputs,
            "numeric": description.numeric,
            "categorical": description.categorical,
            "vector_columns": description.vectors,
            "lists": description.lists,
            "classes": description.classes,
            "objective": description.objective,
        }
        try:
            made = made_by(inputs) if asks is None else made_by(**{key: given[key] for key in asks})
        except BaseException as error:
            if not is_fault(error):
                raise
            cause = located(error, folder, file) or f"{where}: {error}"
            call = f"{name}({', '.join(asks or ('inputs',))})"
            raise ConfigurationError(cause, remedy=f"correct {name}; it is called as {call}") from error
        if not isinstance(made, nn.Module):
            raise ConfigurationError(f"{where}: {name} made {described(made)}", remedy="return a torch.nn.Module")
        return _guarded(made, file, description, where)

    return make


def _asks(function: Callable[..., object], name: str, allowed: Mapping[str, str], where: str) -> tuple[str, ...] | None:
    """What a function asks for by name; None if it takes one value by place. Raises ConfigurationError for others."""
    names = required(function)
    if names is None or list(names) == [next(iter(allowed))]:
        return None
    if own_module.by_name(names, allowed):
        return tuple(names)
    if len(names) == 1 or (not names and takes(function, 1)):
        return None
    wrong, remedy = own_module.refusal(names, allowed)
    raise ConfigurationError(f"{where}: {name} {wrong}; allowed: {', '.join(allowed)}", remedy=remedy)


def place_of_forward(made: nn.Module, file: str) -> str | None:
    """`file:line` of a module's forward; None if the file does not define it."""
    forward = type(made).forward
    defined_in = Path(getattr(getattr(forward, "__code__", None), "co_filename", "")).name
    return place(forward, file) if defined_in == file else None


def located(error: BaseException, folder: Path, file: str) -> str | None:
    """`file:line: Type: message` of an error that the pipeline's file raised, or what it called; None for any other."""
    found = blame(error, folder, file)
    return found if found.removeprefix(f"{file}:")[:1].isdigit() else None


def _named(module: ModuleType, name: str, file: str) -> Any:
    found = getattr(module, name, None)
    if callable(found):
        return found
    own = sorted(key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__)
    what = f"is {described(found)}, not a class or a function" if name in vars(module) else "is not defined"
    raise ConfigurationError(
        f"{file}:1: {name}, which train.model.kind names, {what}",
        remedy=f"define it; {file} defines {', '.join(own) or 'nothing'}",
    )


def _guarded(made: nn.Module, file: str, description: Description, where: str) -> Layers:
    """where: of what made the module; a forward of the file itself is named by its own line."""
    place_of = place_of_forward(made, file) or where
    asks = _asks(made.forward, "forward", own_module.FORWARD, place_of)
    if asks and description.group is None and (of_groups := own_module.OF_GROUPS.intersection(asks)):
        raise ConfigurationError(
            f"{place_of}: forward asks for {', '.join(sorted(of_groups))}, and no column has the role group",
            remedy="give a column the role group, or take it out of forward",
        )
    return Layers(module=made, asks=asks, check=partial(_check_output, place_of, description.classes))


def _check_output(where: str, classes: int, output: object, rows: int) -> None:
    """Refuse an output that is not a score for each row and class."""
    allowed = {(rows, classes)} if classes > 1 else {(rows, 1), (rows,)}
    if isinstance(output, Tensor) and tuple(output.shape) in allowed:
        return
    shapes = f"[rows, {classes}]" if classes > 1 else "[rows, 1], [rows]"
    raise ConfigurationError(
        f"{where}: forward returned {described(output)} for {rows:,} rows; allowed: a tensor of shape {shapes}",
        remedy="return a raw output for each row" + (" and class" if classes > 1 else ""),
    )
