"""The shape of the house: file and function lengths, types, circles between files, exceptions from lint.

`scripts/shape.py` prints a line for each package and one for all; it ends with 1 if a limit is exceeded.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("ratchet", "tasks", "plugins", "local", "team", "demo", "benchmarks", "dags", "scripts")
MAX_LINES, MAX_P90, MAX_NOQA = 300, 25, 70
ALL = 100.0  # percent


@dataclass(frozen=True)
class File:
    """One Python file. functions: (lines, fully typed) of each."""

    path: Path
    lines: int
    functions: tuple[tuple[int, bool], ...]
    imports: frozenset[str]


def main() -> int:
    """Print the measures."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.py"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    paths = [Path(name) for name in listed if (ROOT / name).is_file()]
    files = [_read(path) for path in paths if path.parts[0] in PACKAGES]
    print(f"{'':<12}{'files':>6}{'lines':>8}{'longest':>9}{'functions':>11}{'p50':>5}{'p90':>5}{'typed':>7}")
    for package in PACKAGES:
        _show(package, [file for file in files if file.path.parts[0] == package])
    longest, p90, typed = _show("all", files)
    circles = sorted(_circles(files))
    noqa = sum((ROOT / path).read_text(encoding="utf-8").count("# noqa") for path in paths if path.name != "shape.py")
    print(f"circles between files: {len(circles)}{''.join(f'; {circle}' for circle in circles)}")
    print(f"noqa, tests included: {noqa}")
    limits = {
        f"longest file {longest} lines, at most {MAX_LINES}": longest <= MAX_LINES,
        f"functions p90 {p90} lines, at most {MAX_P90}": p90 <= MAX_P90,
        f"typed {typed:.1f} %, all": typed == ALL,
        f"circles {len(circles)}, none": not circles,
        f"noqa {noqa}, at most {MAX_NOQA}": noqa <= MAX_NOQA,
    }
    for limit, held in limits.items():
        print(f"shape: {limit}: {'fine' if held else 'EXCEEDED'}")
    return 0 if all(limits.values()) else 1


def _show(name: str, files: list[File]) -> tuple[int, int, float]:
    functions = [function for file in files for function in file.functions]
    sizes = sorted(lines for lines, _ in functions)
    cuts = quantiles(sizes, n=10, method="inclusive") if len(sizes) > 1 else [float(sum(sizes))] * 9
    longest = max((file.lines for file in files), default=0)
    typed = 100 * sum(full for _, full in functions) / max(len(functions), 1)
    total = sum(file.lines for file in files)
    p50, p90 = round(cuts[4]), round(cuts[8])
    print(f"{name:<12}{len(files):>6}{total:>8}{longest:>9}{len(functions):>11}{p50:>5}{p90:>5}{typed:>6.0f}%")
    return longest, p90, typed


def _read(path: Path) -> File:
    text = (ROOT / path).read_text(encoding="utf-8")
    tree = ast.parse(text)
    functions = tuple(
        ((node.end_lineno or node.lineno) - node.lineno + 1, _typed(node))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return File(path, text.count("\n"), functions, frozenset(_imports(tree)))


def _typed(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    given += [extra for extra in (node.args.vararg, node.args.kwarg) if extra]
    named = [argument for argument in given if argument.arg not in {"self", "cls"}]
    return node.returns is not None and all(argument.annotation for argument in named)


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _circles(files: list[File]) -> set[str]:
    """The circles of imports between files, imports inside functions and for types alone included."""
    names = {_module(file.path): file for file in files}
    arrows = {name: sorted(file.imports & names.keys() - {name}) for name, file in names.items()}
    found: set[str] = set()
    done: set[str] = set()

    def walk(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            circle = trail[trail.index(name) :]
            start = circle.index(min(circle))
            found.add(" -> ".join((*circle[start:], *circle[:start], circle[start])))
        elif name not in done:
            for below in arrows[name]:
                walk(below, (*trail, name))
            done.add(name)

    for name in arrows:
        walk(name, ())
    return found


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[1:] if parts[0] == "plugins" else parts)


if __name__ == "__main__":
    sys.exit(main())
