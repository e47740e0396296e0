"""The network of a pipeline's own file, such as model.py, and what it has to be."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from ratchet.contracts.errors import ConfigurationError
from ratchet.model.description import Description
from ratchet.model.signatures import described, fits, place
from ratchet.runtime.user_code import blame, is_fault, load_module


def custom_body(description: Description, folder: Path) -> Callable[[int], nn.Module] | None:
    """What makes the pipeline's own module, given its number of inputs; None for our own architectures.

    Raises ConfigurationError, with file and line, if it is not there, fails, or makes no torch module that takes one
    tensor; the module raises it for an output of a wrong shape.
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

    def make(inputs: int) -> nn.Module:
        where = place(made_by, file)
        fits(made_by, f"{name}(inputs)", (inputs,), where)
        try:
            made = made_by(inputs)
        except BaseException as error:
            if not is_fault(error):
                raise
            cause = located(error, folder, file) or f"{where}: {error}"
            raise ConfigurationError(cause, remedy=f"correct {name}; it is called as {name}(inputs)") from error
        if not isinstance(made, nn.Module):
            raise ConfigurationError(f"{where}: {name} made {described(made)}", remedy="return a torch.nn.Module")
        return _guarded(made, file, description.classes, where)

    return make


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


def _guarded(made: nn.Module, file: str, classes: int, where: str) -> nn.Module:
    """where: of what made the module; a forward of the file itself is named by its own line."""
    own = place_of_forward(made, file)
    if own is not None:
        fits(type(made).forward, "forward(self, x)", (made, None), own)
    made.register_forward_hook(partial(_check_output, own or where, classes))
    return made


def _check_output(where: str, classes: int, _: nn.Module, inputs: tuple[Tensor, ...], output: object) -> None:
    """Refuse an output that is not a score for each row and class."""
    rows = len(inputs[0])
    allowed = {(rows, classes)} if classes > 1 else {(rows, 1), (rows,)}
    if isinstance(output, Tensor) and tuple(output.shape) in allowed:
        return
    shapes = f"[rows, {classes}]" if classes > 1 else "[rows, 1], [rows]"
    raise ConfigurationError(
        f"{where}: forward returned {described(output)} for {rows:,} rows; allowed: a tensor of shape {shapes}",
        remedy="return a raw output for each row" + (" and class" if classes > 1 else ""),
    )
