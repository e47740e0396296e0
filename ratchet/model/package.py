"""Our code that scores, as a package that a model brings with it: its name says its content.

Its modules import each other relatively, so they run under any name and need no place on `sys.path`. Other code has
another name, so models of any age score side by side in one process, each by the code that it was evaluated with.

A change here violates the promise of the project when a package imports what it does not hold, or two packages that
differ get one name.
"""

import ast
import re
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from ratchet.checkout import ROOT
from ratchet.contracts import bundle
from ratchet.contracts.fingerprint import digest_of
from ratchet.runtime.code import code_parts

SCORING = "ratchet.model.scoring"
_PREFIX = "ratchet_scoring_"
_OURS = re.compile(r"(ratchet|tasks)(\..*)?")
_TEXT = re.compile(r"(ratchet|tasks)\.[\w.]*")
_FROM = re.compile(r"^([ \t]*from )ratchet(?:\.([\w.]+))?(?= import )", re.MULTILINE)


def pack() -> bytes:
    """The modules of this checkout that scoring needs, and no others; the same bytes for the same modules."""
    with TemporaryDirectory(prefix="ratchet-") as folder:
        for name, source in _modules().items():
            target = Path(folder) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source)
        return bundle.pack(Path(folder))


def unpack(packed: bytes, place: Path) -> Path:
    """The package's folder, read-only, in `place`, which must not exist. The folder's name is the package's."""
    files = place / "files"
    bundle.unpack(packed, files)
    return files.rename(place / f"{_PREFIX}{digest_of(bundle.digests(files))[:16]}")


def relocate(source: str, name: PurePosixPath) -> str:
    """A module of ours with relative imports of our modules; nothing else of it changes.

    name: the module's file, relative to the folder of `ratchet`. Raises ValueError if it imports ours in another way
    than `from ratchet... import ...`, or names a module of ours in a text.
    """
    level = len(name.parts)
    moved = _FROM.sub(lambda found: f"{found[1]}{'.' * level}{found[2] or ''}", source)
    tree = ast.parse(moved)
    for node in ast.walk(tree):
        if wrong := _reference(node):
            raise ValueError(f"{name}:{getattr(node, 'lineno', 1)}: {wrong} cannot be moved; import it by from")
    if ast.dump(_absolute(tree, level)) != ast.dump(ast.parse(source)):
        raise ValueError(f"{name}: more than its imports would change")
    return moved


def _modules() -> dict[str, bytes]:
    """Files of the package by their names in it."""
    found: dict[str, bytes] = {}
    for part in code_parts(SCORING):
        path = ROOT.joinpath(*part.removeprefix("code.").split("."))
        source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        name = PurePosixPath(source.relative_to(ROOT / "ratchet").as_posix())
        found[str(name)] = relocate(source.read_text(encoding="utf-8"), name).encode()
        for package in name.parents:
            found.setdefault(str(package / "__init__.py"), b"")
    return found


def _reference(node: ast.AST) -> str | None:
    """How a node refers to a module of ours by its full name, if it does."""
    match node:
        case ast.Import(names=names):
            named = [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), level=0):
            named = [module]
        case ast.Constant(value=str(text)) if _TEXT.fullmatch(text):
            named = [text]
        case _:
            return None
    return next(filter(_OURS.fullmatch, named), None)


def _absolute(tree: ast.Module, level: int) -> ast.Module:
    """The tree as it was before relative imports of this level were made of absolute ones."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == level:
            node.module, node.level = f"ratchet.{node.module}" if node.module else "ratchet", 0
    return tree
