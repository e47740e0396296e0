"""The pipeline's own Python files: loaded from the unpacked bundle, never from anywhere else."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from ratchet.contracts.errors import ConfigurationError


def load_module(folder: Path, file: str) -> ModuleType | None:
    """A file of the pipeline's folder as a module, or None where there is no such file.

    Raises ConfigurationError with file and line if the code cannot be imported.
    """
    path = folder / file
    if not path.is_file():
        return None
    name = f"ratchet_pipeline_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"{file}: is not a Python file", remedy="name it *.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigurationError(
            f"{_place(error, path)}: {type(error).__name__}: {error}", remedy=f"mend {file}"
        ) from error
    finally:
        sys.path.remove(str(folder))
    return module


def attribute(module: ModuleType, name: str, file: str) -> Any:
    """Something that a user's file has to define."""
    try:
        return getattr(module, name)
    except AttributeError:
        public = ", ".join(sorted(key for key in vars(module) if not key.startswith("_"))) or "nothing"
        raise ConfigurationError(f"{file}: {name} is not defined", remedy=f"define it; the file has {public}") from None


def _place(error: BaseException, path: Path) -> str:
    """`file:line` of the deepest frame of an error inside the user's file."""
    line = error.lineno if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{path.name}:{line}" if line else path.name


def blame(error: BaseException, folder: Path, file: str) -> str:
    """`file:line: Type: message` for an error that came out of a call into a user's file."""
    return f"{_place(error, folder / file)}: {type(error).__name__}: {error}"
