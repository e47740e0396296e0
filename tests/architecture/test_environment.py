"""Environment variables are spelled in one module. Who reads them goes through it.

Left out, since no typed document of the library can hold them: `team/`, whose settings file has keys of its own that go
to Docker Compose; the Compose files; shell scripts and the Makefile; pipelines, which name variables in `source.uri`.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from ratchet.contracts.environment import ALERTS, Environment, variable

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("ratchet", "tasks", "plugins", "local", "demo", "dags", "benchmarks")
MODULES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
HOME = ROOT / "ratchet" / "contracts" / "environment.py"
KNOWN = {variable(field) for field in Environment.model_fields}
TEAMS_OWN = {"RATCHET_ARTIFACTS", "RATCHET_LISTEN", "RATCHET_LOGS", "RATCHET_LOGS_KEEP_DAYS"}
"""Read in containers by modules of `team` alone."""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a module's code, parts of f-strings among them, each with its line; docstrings are no code."""
    tree = ast.parse(path.read_bytes())
    documented = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            yield node.lineno, node.value


def test_no_other_module_spells_a_variable() -> None:
    assert HOME in MODULES
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in MODULES
        if path != HOME
        for line, text in texts(path)
        if "RATCHET_" in text
    ]
    assert found == []


def test_every_variable_that_a_comment_or_a_docstring_names_exists() -> None:
    named = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in MODULES
        for name in re.findall(r"RATCHET_[A-Z0-9_]*[A-Z0-9]", path.read_text(encoding="utf-8"))
    }
    assert {(path, name) for path, name in named if name not in KNOWN and not name.startswith(ALERTS[:-1])} == set()


def test_every_variable_that_compose_gives_to_a_container_is_read_there() -> None:
    files = [ROOT / "docker-compose.yaml", *sorted((ROOT / "docker").glob("compose-*.yaml"))]
    assert len(files) > 1
    given = {name for file in files for name in _given(yaml.safe_load(file.read_text(encoding="utf-8")))}
    assert "RATCHET_STORE" in given
    assert given - KNOWN - TEAMS_OWN == set()


def _given(part: object) -> Iterator[str]:
    """The keys of mappings, at any depth, that are variables of ours."""
    if isinstance(part, dict):
        yield from (key for key in part if str(key).startswith("RATCHET_"))
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            yield from _given(each)
