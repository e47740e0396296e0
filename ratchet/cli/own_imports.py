"""Checks that the modules and names that a pipeline's Python files import exist. Reads the files, never runs them."""

import sys
from collections.abc import Iterator
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from ratchet.cli.definitions import Import, defined_names, imports, parse
from ratchet.contracts.misfits import Misfit
from ratchet.runtime.release import stage_libraries

_ENDINGS = (".py", ".so", ".pyd")


def import_misfits(file: Path, checked: set[Path] | None = None) -> Iterator[Misfit]:
    """The problems of the imports of a file, and of the folder's files that it imports. checked: files to leave out."""
    folder, checked = file.parent, checked if checked is not None else set()
    checked.add(file)
    try:
        found = list(imports(parse(file)))
    except (SyntaxError, ValueError) as error:
        yield not_python(file, error)
        return
    for one in found:
        if one.level > 1 or not (one.level or _is_ours(folder, one.module)):
            yield from _foreign(file, one)
            continue
        yield from _own(file, one)
        for module in _modules(one):
            target = _source(folder, module)
            if target is not None and target not in checked:
                yield from import_misfits(target, checked)


def not_python(file: Path, error: SyntaxError | ValueError) -> Misfit:
    """The problem of a file that cannot be parsed."""
    line = (error.lineno or 1) if isinstance(error, SyntaxError) else 1
    return Misfit((), f"is not Python: {error.args[0]}", remedy="correct the syntax", where=f"{file}:{line}")


def _own(file: Path, one: Import) -> Iterator[Misfit]:
    """The problem of an import from the folder: a module or a name that does not exist."""
    folder, where = file.parent, f"{file}:{one.line}"
    source = _source(folder, one.module) if one.module else None
    if one.module and source is None and not _place(folder, one.module).is_dir():
        if not any(_place(folder, one.module).with_suffix(ending).is_file() for ending in _ENDINGS):
            yield _missing(folder, one.module, where)
        return
    try:
        known = set(defined_names(parse(source))) if source else set()
    except (SyntaxError, ValueError):
        return  # reported where the imports of that file are read
    for name in one.names:
        inside = f"{one.module}.{name}".lstrip(".")
        if name in known or {"*", "__getattr__"} & {name, *known} or _exists(folder, inside):
            continue
        near = get_close_matches(name, known, n=1)
        what = source.relative_to(folder) if source else "the folder"
        allowed = ", ".join(sorted(known)) if source else ""
        remedy = f"correct the name, or define {name} in {what}"
        suggestion = next(iter(near), "")
        yield Misfit((), f"{what} does not define {name}", allowed, suggestion, remedy, where)


def _foreign(file: Path, one: Import) -> Iterator[Misfit]:
    """The problem of an import from outside the folder, if no stage has such a module."""
    first = one.module.partition(".")[0]
    if one.level:
        yield Misfit((), "imports from outside the folder", remedy="move it in", where=f"{file}:{one.line}")
    elif first not in sys.stdlib_module_names and first not in _libraries() and find_spec(first) is None:
        yield _missing(file.parent, one.module, f"{file}:{one.line}")


def _missing(folder: Path, module: str, where: str) -> Misfit:
    files = sorted(path.stem for path in folder.glob("*.py"))
    near = get_close_matches(module, files, n=1)
    return Misfit(
        (),
        f"imports {module}, which is no file of the folder and no library of the stages",
        suggestion=next(iter(near), ""),
        remedy=f"add {module.replace('.', '/')}.py to the folder, or correct the import",
        where=where,
    )


def _modules(one: Import) -> Iterator[str]:
    """The modules that an import may load."""
    if one.module:
        yield one.module
    yield from (f"{one.module}.{name}".lstrip(".") for name in one.names)


def _is_ours(folder: Path, module: str) -> bool:
    return _exists(folder, module.partition(".")[0])


def _exists(folder: Path, module: str) -> bool:
    """Whether a module is in the folder: as a file, as a package, or built."""
    place = _place(folder, module)
    built = [*place.parent.glob(f"{place.name}.*.so"), *place.parent.glob(f"{place.name}.*.pyd")]
    return place.is_dir() or any(place.with_suffix(ending).is_file() for ending in _ENDINGS) or bool(built)


def _source(folder: Path, module: str) -> Path | None:
    place = _place(folder, module)
    return next((path for path in (place / "__init__.py", place.with_suffix(".py")) if path.is_file()), None)


def _place(folder: Path, module: str) -> Path:
    return folder.joinpath(*module.split("."))


def _libraries() -> frozenset[str]:
    """The modules of the libraries that every stage has; this environment may lack them."""
    return frozenset({name.removesuffix("-skinny").replace("-", "_") for name in stage_libraries()})
