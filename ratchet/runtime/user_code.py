"""The pipeline's own Python files: loaded from the unpacked bundle, never from anywhere else.

Each folder is a package with a name of its own. So two pipelines in one process may have helper modules of one name,
and neither changes what the process itself imports under it: `sys.path` and plain names in `sys.modules` stay.

The plain names are those of import statements, at the top and inside functions. What finds modules in another way does
not know them:

- `importlib.import_module` finds the process's own module. With a literal name of the folder it is refused.
- Pickle writes an object's module under the package's name. Only this process, and one that it forks, reads it again. A
  pickle that names a plain module gets the process's own one, or fails.
- A process that `multiprocessing` starts by spawn or forkserver cannot import the package; a pool of such waits for
  ever. A literal choice of them is refused; where it is the default (macOS), nobody notices.

An `__init__.py` of the folder itself is not run. A package of the folder hides all of a package of that name outside,
also where neither has an `__init__.py`. A module has the built-in names of the moment when it was loaded.

What was loaded stays in `sys.modules` until the process ends, and a folder at another place is loaded again.

A change here violates the promise of the project when a folder's module runs the code of another folder.
"""

import ast
import builtins
import hashlib
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from importlib.util import module_from_spec
from pathlib import Path, PurePosixPath
from threading import Lock
from types import CodeType, ModuleType
from typing import Any

from ratchet.contracts import bundle
from ratchet.contracts.errors import ConfigurationError, RatchetError
from ratchet.runtime import plain_names

_PREFIX = "ratchet_pipeline_"
_PRIVATE = re.compile(rf"\b{_PREFIX}[0-9a-f]{{16}}\.")
_LOCK = Lock()
_own: dict[str, frozenset[str]] = {}
"""The packages that were made here, and the top-level names that each has files for."""


def load_module(folder: Path, file: str) -> ModuleType | None:
    """A file of the pipeline's folder as a module, or None where there is no such file.

    Its imports, at the top or inside functions, find the folder's own modules first. `importlib.import_module` finds
    them by relative names alone: `import_module(".mapping", __package__)`.
    Raises ConfigurationError with file and line if the code cannot be imported.
    """
    path = folder / file
    if not path.is_file():
        return None
    name = f"{_package(folder)}.{path.stem}"
    try:
        return import_module(name)
    except BaseException as error:
        if not is_fault(error):
            raise
        raise ConfigurationError(blame(error, folder, file), remedy=f"correct {file}") from error


def attribute(module: ModuleType, name: str, file: str) -> Any:
    """Something that a user's file has to define."""
    try:
        return getattr(module, name)
    except AttributeError:
        public = ", ".join(sorted(key for key in vars(module) if not key.startswith("_"))) or "nothing"
        raise ConfigurationError(f"{file}: {name} is not defined", remedy=f"define it; the file has {public}") from None


def is_fault(error: BaseException) -> bool:
    """Whether an error that comes out of a call into a pipeline's code is a fault of that code, such as its `sys.exit`.

    All others pass through that call: errors of ours, a lack of memory, an interrupt, and what the handler of a signal
    raises.
    """
    if isinstance(error, Exception):
        return not isinstance(error, RatchetError) and not lacks_memory(error)
    return not isinstance(error, KeyboardInterrupt) and raised_by(error) is not None


def lacks_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out. Torch raises a plain RuntimeError for the memory of the host."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)
        and (type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error))
    )


def raised_by(error: BaseException) -> str | None:
    """`file:line` in a pipeline's folder if a line there raised the error itself, and nothing that it called."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    if trace is None or not str(trace.tb_frame.f_globals.get("__name__", "")).startswith(_PREFIX):
        return None
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"


def is_own(kind: type) -> bool:
    """Whether a class is defined in a pipeline's folder."""
    return kind.__module__.startswith(_PREFIX)


def blame(error: BaseException, folder: Path, file: str) -> str:
    """`file:line: Type: message` for an error that came out of a call into a user's file."""
    return f"{_place(error, folder / file)}: {type(error).__name__}: {_PRIVATE.sub('', str(error))}"


def _place(error: BaseException, path: Path) -> str:
    """`file:line` of the deepest frame of an error inside the user's file."""
    line = error.lineno if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == str(path.absolute()):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{path.name}:{line}" if line else path.name


def _package(folder: Path) -> str:
    """The name of the folder's package, which says where it is, what it holds, and which copy of this module loads it.

    Models that were registered at different times bring different copies of this module into one process.
    """
    files, place = bundle.digests(folder), str(folder.absolute())
    name = f"{_PREFIX}{hashlib.sha256(repr((__name__, place, files)).encode()).hexdigest()[:16]}"
    with _LOCK:
        if _Finder not in sys.meta_path:
            sys.meta_path.insert(0, _Finder)
        if name not in _own:
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [place]
            sys.modules[name] = module_from_spec(spec)
            _own[name] = frozenset(filter(None, map(_top, files)))
    return name


def _top(file: str) -> str | None:
    """The top-level module that a file of the folder is, or is a part of; None for what is no code."""
    suffix = next(filter(file.endswith, (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES)), None)
    return suffix and PurePosixPath(file.removesuffix(suffix)).parts[0]


class _Finder:
    """Finds the modules of the packages made here, and no others.

    What it does not find below one of them, no later finder is asked for. Finders that the process put before it are.
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder."""
        if path is None or name.partition(".")[0] not in _own:
            return None
        kinds = (ExtensionFileLoader, EXTENSION_SUFFIXES), (_Loader, SOURCE_SUFFIXES)
        found = next(filter(None, (FileFinder(folder, *kinds).find_spec(name) for folder in path)), None)
        if found is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return found


class _Loader(SourceFileLoader):
    """Runs a module of the folder with an `import` that knows the folder; neither reads nor writes byte code."""

    def get_code(self, fullname: str) -> CodeType:
        """The module's code. Byte code is trusted by second and size, and folders are temporary."""
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path), path)
        plain_names.refuse(tree, Path(path).name, _own[fullname.partition(".")[0]])
        return self.source_to_code(tree, path)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module."""
        package = module.__name__.partition(".")[0]
        own = {"__import__": partial(_import, package), "hash": _hash}
        vars(module)["__builtins__"] = {**vars(builtins), **own}
        super().exec_module(module)


def _hash(value: object) -> int:
    """`hash` for a module of a package made here: that of text, another number in each process, is refused.

    A class may still hash the text of its own fields.
    """
    caller = sys._getframe(1).f_code.co_name  # noqa: SLF001 - no public function is as fast
    if isinstance(value, str | bytes) and caller != "__hash__":
        raise TypeError("hash of text is another number in each process; use zlib.crc32(text.encode())")
    return hash(value)


def _import(
    package: str,
    name: str,
    globals_: Mapping[str, object] | None = None,
    locals_: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """`__import__` for a module of a package made here: the package's own modules come before all others."""
    first = name.partition(".")[0]
    if level or first not in _own[package]:
        return builtins.__import__(name, globals_, locals_, fromlist or (), level)
    found = builtins.__import__(f"{package}.{name}", globals_, locals_, fromlist or (), 0)
    return found if fromlist else sys.modules[f"{package}.{first}"]
