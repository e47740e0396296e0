"""The two wheels: what each holds, and what the library does in an environment without the stages' libraries."""

import json
import sys
import zipfile
from datetime import date
from pathlib import Path

import pytest

from ratchet.contracts.loading import load
from ratchet.contracts.stages import REGULAR
from ratchet.runs.planning import make_plan
from ratchet.runs.requests import compose
from ratchet.samples import clicks
from ratchet.store.opening import open_store
from tests.packaging.conftest import ROOT, UV, environment, run

PIPELINE = ROOT / "dags" / "pipelines" / "search-ranking"
DAY = date(2026, 3, 20)
HEAVY = {"torch", "pandas", "numpy", "pyarrow", "polars", "mlflow", "great_expectations", "airflow", "tasks"}
pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("wheels")]
FINGERPRINT = """
import sys
from datetime import date
from pathlib import Path
from ratchet.contracts.loading import load
from ratchet.runs.planning import make_plan
from ratchet.runs.requests import compose
from ratchet.store.opening import open_store
folder, store = Path(sys.argv[1]), sys.argv[2]
spec = load(folder, {"source.window_days": 3})
plan = make_plan(folder=folder, spec=spec, data_date=date.fromisoformat(sys.argv[3]), run_id="r", kind="local",
                 store_uri=store)
print(compose(open_store(store), plan, "ingest", {}, "a").fingerprint)
"""


@pytest.fixture(scope="module")
def light(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a new environment with the library's wheel and what that declares, at our versions."""
    home = tmp_path_factory.mktemp("light") / "venv"
    run(UV, "venv", "--quiet", "--python", sys.executable, home)
    run(UV, "pip", "install", "--quiet", "--python", home / "bin" / "python", "-c", ROOT / "requirements.txt",
        wheels["ratchet"])  # fmt: skip
    return home / "bin"


def test_each_wheel_holds_its_packages_and_no_other(wheels: dict[str, Path]) -> None:
    tops = {
        name: {entry.partition("/")[0] for entry in zipfile.ZipFile(path).namelist() if ".dist-info/" not in entry}
        for name, path in wheels.items()
    }
    assert tops == {"ratchet": {"ratchet", "ratchet_airflow"}, "ratchet_stages": {"tasks"}}
    stages = {
        entry.split("/")[1] for entry in zipfile.ZipFile(wheels["ratchet_stages"]).namelist() if "/stage.py" in entry
    }
    assert stages == set(REGULAR)


def test_the_library_s_wheel_registers_the_plugin_and_the_policy_with_airflow(light: Path) -> None:
    program = (
        "from importlib.metadata import entry_points as e; "
        "print(*(p.value for g in ('airflow.plugins', 'airflow.policy') for p in e(group=g)))"
    )
    assert run(light / "python", "-c", program, env=environment()).split() == [
        "ratchet_airflow.plugin:RatchetPlugin",
        "ratchet_airflow.policy",
    ]


def test_without_the_stages_libraries_it_checks_and_plans_as_the_checkout_does(light: Path, tmp_path: Path) -> None:
    for _ in clicks.write(tmp_path, days=3, rows_per_day=50, end=DAY, seed=0):
        pass
    installed = run(light / "python", "-c", "import json, importlib.util as u; print(json.dumps("
                    f"[n for n in {sorted(HEAVY)!r} if u.find_spec(n)]))", env=environment())  # fmt: skip
    assert json.loads(installed) == []
    light_env = environment(RATCHET_DATA=str(tmp_path))
    checked = run(light / "ratchet", "check", PIPELINE, env=light_env)
    assert "the file is fine" in checked
    assert "not checked: one step of training: " in checked
    assert "install the wheel ratchet-stages" in checked
    said = run(light / "ratchet", "plan", PIPELINE, "--date", DAY.isoformat(), "--set", "source.window_days=3",
               "--store", tmp_path / "store", env=light_env)  # fmt: skip
    assert "build" in said
    theirs = run(light / "python", "-c", FINGERPRINT, PIPELINE, tmp_path / "store", DAY.isoformat(), env=light_env)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RATCHET_DATA", str(tmp_path))
        spec = load(PIPELINE, {"source.window_days": 3})
        plan = make_plan(folder=PIPELINE, spec=spec, data_date=DAY, run_id="r2", kind="local",
                         store_uri=str(tmp_path / "store"))  # fmt: skip
    ours = compose(open_store(plan.store), plan, "ingest", {}, "a")
    assert theirs.split() == [ours.fingerprint]


def test_a_verb_that_needs_the_stages_libraries_says_so_in_one_line(light: Path, tmp_path: Path) -> None:
    said = run(light / "ratchet", "sample", "clicks", "--out", tmp_path, env=environment(), code=64)
    assert (
        said
        == "ratchet sample: needs numpy, which is not installed; to do: install the wheel ratchet-stages (make wheels)\n"
    )


def test_a_run_whose_stages_are_not_installed_says_so(light: Path, tmp_path: Path) -> None:
    for _ in clicks.write(tmp_path, days=3, rows_per_day=50, end=DAY, seed=0):
        pass
    said = run(light / "ratchet", "run", PIPELINE, "--date", DAY.isoformat(), "--set", "source.window_days=3",
               "--store", tmp_path / "store", "--runner", "process", env=environment(RATCHET_DATA=str(tmp_path)),
               code=64)  # fmt: skip
    assert "the code of the stage ingest is not installed here; to do: install the wheel ratchet-stages" in said
