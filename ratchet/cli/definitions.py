"""What a Python file defines and imports, read from its source. The file is not run."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True)
class Import:
    """An import. module: as written, dotted, without the dots in front; level: their number; names: of `from`."""

    line: int
    module: str
    level: int
    names: tuple[str, ...] = ()


def parse(file: Path) -> list[ast.stmt]:
    """The statements of a file. Raises SyntaxError with its line, and ValueError for what is no source at all."""
    return ast.parse(file.read_bytes()).body


def defined_names(body: Iterable[ast.AST]) -> Iterator[str]:
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
                    yield from defined_names(getattr(node, block, ()))


def definition(body: Iterable[ast.stmt], name: str) -> Function | ast.ClassDef | None:
    """The function or class with a name, if the last statement that sets the name is one without decorators."""
    last = next((node for node in reversed(list(body)) if name in defined_names([node])), None)
    return last if isinstance(last, Function | ast.ClassDef) and not last.decorator_list else None


def takes(function: Function, count: int, *, bound: int = 0) -> bool:
    """Whether a call with this many arguments is possible. bound: 1 for a method, whose `self` is given already."""
    given = function.args
    positional = [*given.posonlyargs, *given.args][bound:]
    required = len(positional) - len(given.defaults)
    keywords = all(default is not None for default in given.kw_defaults)
    return required <= count <= (count if given.vararg else len(positional)) and keywords


def required(function: Function, *, bound: int = 0) -> list[str]:
    """The parameters without a default, as `ratchet.model.signatures.required` names them. bound: as in `takes`."""
    given = function.args
    by_place = [*(f"{one.arg}/" for one in given.posonlyargs), *(one.arg for one in given.args)][bound:]
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    return [
        *by_place[: len(by_place) - len(given.defaults)],
        *(one.arg for one, default in named if default is None),
    ]


def imports(body: Iterable[ast.AST]) -> Iterator[Import]:
    """The imports of a file, also inside functions; without those that may fail: below `try`, or for types alone."""
    for node in body:
        match node:
            case ast.Import():
                yield from (Import(line=node.lineno, module=alias.name, level=0) for alias in node.names)
            case ast.ImportFrom():
                names = tuple(alias.name for alias in node.names)
                yield Import(line=node.lineno, module=node.module or "", level=node.level, names=names)
            case ast.Try() if node.handlers:
                yield from imports([*node.orelse, *node.finalbody])
            case ast.If() if "TYPE_CHECKING" in ast.unparse(node.test):
                yield from imports(node.orelse)
            case _:
                yield from imports(ast.iter_child_nodes(node))


def _is_set(part: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
