"""Digests of our source code: of a module and of all our modules that it imports. Reads the files, imports nothing."""

import re
from functools import cache

from ratchet.checkout import ROOT
from ratchet.contracts.fingerprint import digest

_IMPORT = re.compile(
    r"^[ \t]*(?:import ((?:ratchet|tasks)\b[\w.]*)|from ((?:ratchet|tasks)\b[\w.]*) import (?:\(([^)]*)\)|(.*)))",
    re.MULTILINE,
)
"""An import of our modules, one module in each statement. A parser would take a tenth of a second for all files."""
_COMMENT = re.compile("#.*")
_OF_NO_DATA = frozenset(f"ratchet.contracts.{name}" for name in ("release_number", "environment", "alerts"))
"""Modules that nearly every stage needs and no result depends on, or each release would make all of them again.

The number is only said in errors. No fingerprint has the value of a variable, so no result may depend on one.
"""


Modules = dict[str, tuple[str, tuple[str, ...]] | None]
"""The digest of each module that was read, and what it imports; None for a name that is no module of ours."""


def code_parts(module: str, read: Modules | None = None) -> dict[str, str]:
    """`{"code.tasks.train.loop": sha256, ...}` for one of our modules and all that it needs of ours, but _OF_NO_DATA.

    read: what was read for another module just now, to which this adds. It is for one call: files may change.
    """
    read = {} if read is None else read
    found: dict[str, str] = {}
    seen, waiting = {module, *_OF_NO_DATA}, [module]
    while waiting:
        name = waiting.pop()
        if name not in read:
            source = _source(name)
            read[name] = None if source is None else (digest(source), imports(source))
        if (known := read[name]) is not None:
            found[f"code.{name}"], needed = known
            waiting += (new := set(needed) - seen)
            seen |= new
    return dict(sorted(found.items()))


@cache
def imports(source: bytes) -> tuple[str, ...]:
    """Our modules that a source imports, also inside functions, and the names that it imports from them."""
    names: set[str] = set()
    for alone, module, listed, line in _IMPORT.findall(source.decode()):
        names.add(alone or module)
        members = _COMMENT.sub("", listed or line).split(",")
        names.update(f"{module}.{name.split()[0]}" for name in members if name.strip())
    return tuple(sorted(names))


def _source(module: str) -> bytes | None:
    path = ROOT.joinpath(*module.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate.read_bytes()
    return None
