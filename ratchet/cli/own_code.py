"""Checks that the Python files beside a pipeline file define what it names. Reads the files, never runs them."""

import ast
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TypeGuard

from ratchet.contracts.misfits import Misfit, Rule
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.yaml_lines import KeyPath

_FEATURES = "features.py"


def rules(folder: Path) -> tuple[Rule, ...]:
    """The rules for a pipeline whose code is in a folder."""

    def model_exists(spec: PipelineSpec) -> Iterator[Misfit]:
        file, separator, name = spec.train.model.kind.partition(":")
        if separator:
            yield from _misfits(folder / file, name, ("train", "model", "kind"))

    def derive_exists(spec: PipelineSpec) -> Iterator[Misfit]:
        derived = [name for name, column in spec.columns.items() if getattr(column, "derived", False)]
        for name in derived:
            yield from _misfits(folder / _FEATURES, "derive", ("columns", name, "derived"))
        if not derived and (folder / _FEATURES).is_file():
            yield from _misfits(folder / _FEATURES, "derive", ())

    return model_exists, derive_exists


def _misfits(file: Path, name: str, key: KeyPath) -> Iterator[Misfit]:
    if not file.is_file():
        yield Misfit(key, f"no {file.name} exists beside the pipeline file")
        return
    try:
        defined = set(_defined_names(ast.parse(file.read_bytes()).body))
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        yield Misfit(key, f"{file.name}{line}: is not Python: {error.args[0]}")
        return
    if name not in defined and "*" not in defined:
        known = sorted(defined)
        near = get_close_matches(name, known, n=1)
        yield Misfit(key, f"{file.name} does not define {name}", ", ".join(known) or "nothing, as it is empty", *near)


def _is_set(part: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)


def _defined_names(body: Iterable[ast.AST]) -> Iterator[str]:
    """The names that the statements of a module define; `*` if it imports all names of another module."""
    for node in body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
            case ast.Import() | ast.ImportFrom():
                yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
            case ast.Assign() | ast.AnnAssign():
                yield from (part.id for part in ast.walk(node) if _is_set(part))
            case _:
                for block in ("body", "handlers", "orelse", "finalbody"):
                    yield from _defined_names(getattr(node, block, ()))
