"""Digests of our own source: a module and all of ours that it imports, found by reading, not by importing."""

import ast
from functools import cache
from pathlib import Path

from tasks.contracts.fingerprint import digest

_ROOT = Path(__file__).resolve().parents[2]


def code_parts(module: str) -> dict[str, str]:
    """`{"code.tasks.train.loop": sha256, ...}` for a module of ours and all modules of ours that it needs."""
    found: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if f"code.{name}" not in found and (source := _source(name)) is not None:
            found[f"code.{name}"] = digest(source)
            waiting += _imports(name)
    return dict(sorted(found.items()))


@cache
def _source(module: str) -> bytes | None:
    path = _ROOT.joinpath(*module.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate.read_bytes()
    return None


@cache
def _imports(module: str) -> tuple[str, ...]:
    """Modules of ours that a module names in any import, inside functions too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(_source(module) or b"")):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return tuple(sorted(name for name in names if name.partition(".")[0] == "tasks"))
