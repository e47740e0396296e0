"""Calls in a pipeline's files that would look for the folder's modules where only the process's own can be found.

The folder's modules are known by their plain names to its import statements alone. `importlib.import_module` would find
another module of that name or none, and a process that is not forked knows none of them: a pool of such waits for ever.
"""

import ast
from collections.abc import Collection

_STARTS = frozenset({"get_context", "set_start_method"})
_NOT_FORKED = frozenset({"spawn", "forkserver"})


def refuse(tree: ast.Module, file: str, own: Collection[str]) -> None:
    """Raise ImportError for such a call, where its argument is a literal.

    file: for the message. own: the top-level modules of the folder.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name(id=called) | ast.Attribute(attr=called), args=[ast.Constant(value=str(text)), *_]
            ):
                if wrong := _wrong(called, text, own):
                    raise ImportError(f"{wrong} ({file}, line {node.lineno})")


def _wrong(called: str, text: str, own: Collection[str]) -> str | None:
    if called == "import_module" and text.partition(".")[0] in own:
        return f"import_module({text!r}) does not look into this folder; write: import {text}"
    if called in _STARTS and text in _NOT_FORKED:
        return f"a process that {called}({text!r}) starts cannot import the files of this folder; use threads, or fork"
    return None
