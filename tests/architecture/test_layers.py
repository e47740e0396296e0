"""The shape of the house, as a test."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.heavy_modules import HEAVY

ROOT = Path(__file__).resolve().parents[2]
TRAINING_MAY_IMPORT = {"torch", "numpy", "safetensors"}
PACKAGES = ("ratchet", "tasks", "local", "team", "plugins/ratchet_airflow", "demo", "benchmarks")
OURS = ("ratchet", "tasks")


def modules_after(statement: str) -> set[str]:
    """Top-level names in sys.modules of a fresh interpreter after a statement."""
    program = f"import sys\n{statement}\nprint(' '.join(name for name in sys.modules if '.' not in name))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_each_layer_imports_only_what_is_below_it() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports")], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("module", ["request", "summaries", "loading", "dates", "bundle", "paths", "endpoints"])
def test_importing_a_contract_imports_nothing_heavy(module: str) -> None:
    assert not modules_after(f"import ratchet.contracts.{module}") & {*HEAVY, "airflow"}


def test_the_chain_can_plan_without_the_libraries_of_the_stages() -> None:
    assert not modules_after("import ratchet.runs.planning, ratchet.runs.requests") & {*HEAVY, "airflow"}


@pytest.mark.parametrize("stage", ["ingest", "validate", "features", "register", "report"])
def test_only_training_and_evaluation_load_torch(stage: str) -> None:
    """It takes a second of each container of each night. All modules: what a stage imports late counts too."""
    modules = [f"tasks.{stage}.{path.stem}" for path in (ROOT / "tasks" / stage).glob("*.py") if path.stem[0] != "_"]
    assert f"tasks.{stage}.stage" in modules
    assert "torch" not in modules_after(f"import {', '.join(modules)}")


def test_package_inits_stay_empty() -> None:
    for package in PACKAGES:
        for init in (ROOT / package).rglob("__init__.py"):
            assert init.read_bytes() == b"", init


ADAPTER = {
    *("__init__", "stage", "building", "endings", "extremes", "step_sizes", "days", "parent", "refit", "refit_service"),
    *("profile_page", "launch", "rank", "verdict", "watchdog"),
    *("boosted_stage", "training"),
    *("days_in_order", "micro_batches"),
}
"""The files of train that connect the loop with a stage's documents."""
TRAINING = {path.stem for path in (ROOT / "tasks" / "train").glob("*.py")} - ADAPTER


BOOSTED = {"boosting", "trees"}
"""The files of train that grow boosted trees, by LightGBM."""


@pytest.mark.parametrize(("names", "more"), [(TRAINING - BOOSTED, set[str]()), (BOOSTED, {"lightgbm"})])
def test_the_training_loop_needs_torch_numpy_and_safetensors_alone(names: set[str], more: set[str]) -> None:
    """A GPU machine may have no other package: everything of train but its stage adapter imports on these three."""
    assert names
    ours = set(sys.stdlib_module_names) | TRAINING_MAY_IMPORT | set(OURS) | more
    waiting, seen = [f"tasks.train.{name}" for name in names], set()
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        for imported in _imports(module):
            top = imported.partition(".")[0]
            assert top in ours, f"{module} imports {imported}"
            if top in OURS:
                waiting.append(imported)


def _imports(module: str) -> set[str]:
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    if not path.is_file():
        return set()
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names if node.module.startswith(OURS))
    return found


@pytest.mark.parametrize("drawer", ["utils", "util", "helpers", "helper", "common", "misc"])
def test_there_is_no_drawer_for_odds_and_ends(drawer: str) -> None:
    for folder in (*PACKAGES, "dags", "tests"):
        assert not list((ROOT / folder).rglob(f"{drawer}.py"))
