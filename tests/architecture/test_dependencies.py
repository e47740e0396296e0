"""What is imported is declared, and what is declared is imported, or says beside its name what needs it."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = {"ratchet", "tasks", "local", "team", "demo", "benchmarks", "ratchet_airflow", "tests"}
STUBS = {"mypy_boto3_s3"}
"""Imported for types alone."""
NAMES = {**packages_distributions(), "airflow": ["apache-airflow"], "psycopg2": ["psycopg2-binary"]}
"""Distributions by what they are imported as. psycopg2 is in the team's images alone; Airflow is several."""


def plain(name: str) -> str:
    """A distribution's name in its normal form, without version, extras and comment."""
    return re.sub(r"[-_.]+", "-", re.split(r"[<>=!\[; ]", name.strip(), maxsplit=1)[0]).lower()


def declared(file: str) -> dict[str, str]:
    """The distributions that a requirements file names, each with the comment beside it."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    found = (line.partition("#") for line in lines if line.strip() and line[0] not in "#-")
    return {plain(name): comment.strip() for name, _, comment in found}


BESIDE_STAGES = {"ratchet/runs/judged_scores.py", "ratchet/runs/likeness.py"}
"""What computes with scores and weights. Its verbs name the wheel of the stages where that is not installed."""


WANDB = "ratchet/tracking/wandb_process.py"
"""A process of its own beside the one that follows a training; its library is an extra of the wheel."""


def imported(folders: Iterable[str], *, without: Iterable[str] = ()) -> dict[str, str]:
    """The distributions that the Python files of some folders import, each with one file that does."""
    found: dict[str, str] = {}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.relative_to(ROOT).as_posix() in without:
                continue
            for top in _tops(ast.parse(path.read_bytes())):
                if top not in OURS | STUBS and top not in sys.stdlib_module_names:
                    names = sorted({plain(name) for name in NAMES.get(top, [top])})
                    found.setdefault(_preferred(names), path.relative_to(ROOT).as_posix())
    return found


def _tops(tree: ast.AST) -> Iterable[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (_airflow(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield _airflow(node.module)


def _airflow(module: str) -> str:
    """Airflow's providers share its top-level name; they are known by their own."""
    found = re.match(r"airflow\.providers\.(\w+)", module)
    return f"apache-airflow-providers-{found[1]}" if found else module.partition(".")[0]


def _preferred(names: list[str]) -> str:
    """Of the distributions that share a top-level name, the one that we declare."""
    known = {*declared("requirements.in"), *declared("docker/airflow.in")}
    return next((name for name in names if name in known), names[0])


def project(file: str) -> dict[str, list[str]]:
    """The distributions that a pyproject.toml asks for, by extra; the empty name is what it always asks for."""
    tables = tomllib.loads((ROOT / file).read_text(encoding="utf-8"))["project"]
    groups = {"": tables["dependencies"], **tables.get("optional-dependencies", {})}
    return {group: [plain(name) for name in names] for group, names in groups.items()}


def test_every_library_that_is_imported_is_declared() -> None:
    known = {*declared("requirements.in"), *declared("docker/airflow.in")}
    used = imported(["ratchet", "tasks", "local", "team", "demo", "plugins", "dags"])
    assert {name: file for name, file in used.items() if name not in known} == dict.fromkeys(
        project("pyproject.toml")["wandb"], WANDB
    )
    peers = {*known, *declared("requirements-dev.in")}  # a benchmark compares with libraries that nothing else needs
    assert {name: file for name, file in imported(["benchmarks"]).items() if name not in peers} == {}


def test_every_library_that_the_stage_image_needs_is_in_its_list() -> None:
    """Airflow's side and the runners' are not in there."""
    used = imported(["tasks", "ratchet/contracts", "ratchet/store", "ratchet/tracking", "ratchet/runtime",
                     "ratchet/model", "ratchet/metrics", "ratchet/pages"], without=[WANDB])  # fmt: skip
    known = {
        *declared("docker/stage.in"),
        "mlflow",  # mlflow-skinny is the part of it that stages need
        "croniter",  # read where a person's file is loaded, which no stage does
    }
    assert {name: file for name, file in used.items() if name not in known} == {}


@pytest.mark.parametrize("file", ["requirements.in", "docker/stage.in", "docker/airflow.in"])
def test_every_library_that_is_declared_is_imported_or_says_what_needs_it(file: str) -> None:
    used = {*imported(["ratchet", "tasks", "local", "team", "demo", "benchmarks", "plugins", "dags"]), "mlflow-skinny"}
    assert [name for name, comment in declared(file).items() if name not in used and not comment] == []


def test_the_wheel_of_the_library_asks_for_what_it_imports_without_the_stages() -> None:
    groups = project("pyproject.toml")
    light = ["ratchet/contracts", "ratchet/store", "ratchet/runtime", "ratchet/runners", "ratchet/pages", "ratchet/runs",
             "ratchet/cli"]  # fmt: skip
    assert {name: file for name, file in imported(light, without=BESIDE_STAGES).items() if name not in groups[""]} == {}
    airflow = {name: file for name, file in imported(["plugins"]).items() if name not in groups[""]}
    assert {name: file for name, file in airflow.items() if name not in groups["airflow"]} == {}


def test_the_wheel_of_the_stages_asks_for_what_their_image_has() -> None:
    assert set(project("tasks/pyproject.toml")[""]) - {"ratchet"} == set(declared("docker/stage.in"))
