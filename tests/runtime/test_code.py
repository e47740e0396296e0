"""Which modules of ours a module needs is read from its text; here a parser says the same."""

import ast
from pathlib import Path

import pytest

from ratchet.contracts.stages import STAGES, Stage, section, stage_module
from ratchet.runtime.code import Modules, code_parts, imports

ROOT = Path(__file__).resolve().parents[2]
OURS = sorted(path for package in ("ratchet", "tasks") for path in (ROOT / package).rglob("*.py"))


def by_a_parser(source: bytes) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {name for name in names if name.partition(".")[0] in {"ratchet", "tasks"}}


def test_of_every_file_of_ours_a_parser_finds_the_same_imports() -> None:
    assert len(OURS) > 100
    assert not {
        path.relative_to(ROOT).as_posix(): by_a_parser(path.read_bytes()) ^ set(imports(path.read_bytes()))
        for path in OURS
        if by_a_parser(path.read_bytes()) != set(imports(path.read_bytes()))
    }


@pytest.mark.parametrize(
    "source",
    [
        "import ratchet.runs.local_run as night",
        "from ratchet.runs import night, jobs as work",
        "def late():\n    from ratchet.runs import night  # slow, and seldom needed\n",
        "from ratchet.runs import (  # both, and\n    night,  # this one too, of course\n    jobs,\n)\n",
        "from torch import nn\nimport taskset\nx = 'import ratchet.runs'\n",
    ],
)
def test_a_parser_finds_the_same_however_an_import_is_written(source: str) -> None:
    assert set(imports(source.encode())) == by_a_parser(source.encode())


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_s_parts_are_itself_and_what_it_needs_and_no_other_stage(stage: Stage) -> None:
    parts = code_parts(stage_module(stage))
    assert f"code.{stage_module(stage)}" in parts
    assert "code.ratchet.contracts.errors" in parts
    others = tuple(f"code.tasks.{other}." for other in STAGES if other != section(stage))
    assert not [name for name in parts if name.startswith(others)]


@pytest.mark.parametrize("stage", STAGES)
def test_the_number_of_a_release_its_settings_and_its_alerts_are_no_code_of_a_stage(stage: Stage) -> None:
    """Or a release that changes nothing in the data would make every result again."""
    parts = code_parts(stage_module(stage))
    assert "code.ratchet.contracts.stored" in parts
    assert not [name for name in parts if name.endswith((".release_number", ".environment", ".alerts"))]
    (_, number) = ast.parse((ROOT / "ratchet" / "contracts" / "release_number.py").read_text(encoding="utf-8")).body
    assert ast.unparse(number).startswith("RELEASE = ")


def test_what_stages_take_from_the_modules_that_are_not_their_code_is_no_data() -> None:
    """Names of variables, and who may read them. Look at each new name here: no result may depend on it."""
    modules = {name.removeprefix("code.") for stage in STAGES for name in code_parts(stage_module(stage))}
    left_out = {f"ratchet.contracts.{name}" for name in ("environment", "alerts")}
    taken = set()
    for module in modules:
        path = ROOT.joinpath(*module.split("."))
        source = next(file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file())
        for node in ast.walk(ast.parse(source.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module in left_out:
                taken |= {alias.name for alias in node.names}
    names_and_addresses = {
        "SOURCE_ADDRESSES",
        "SOURCE_SECRETS",
        "environment",
        "is_setting",
        "source_variables",
        "variable",
    }
    assert taken == {"Alerts", *names_and_addresses}


def test_a_module_that_was_read_for_another_stage_is_not_read_again_and_the_parts_are_the_same() -> None:
    read: Modules = {}
    assert all(code_parts(stage_module(stage), read) == code_parts(stage_module(stage)) for stage in STAGES)
    assert read.keys() >= {"tasks.train.loop", "tasks.report.page", "ratchet.contracts.errors"}
