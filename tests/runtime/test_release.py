"""What planning knows of the stages does not depend on what else is installed beside the library."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.contracts.exits import ExitCode
from ratchet.contracts.stages import STAGES
from ratchet.runtime.release import stage_code, stage_libraries, write_record
from ratchet.store.file import FileStore
from tests.world import SPEC, World

ROOT = Path(__file__).resolve().parents[2]
FACTS = """
import json
from ratchet.contracts.stages import STAGES
from ratchet.runtime.release import stage_code, stage_libraries
print(json.dumps({"code": {stage: stage_code(stage) for stage in STAGES}, "libraries": stage_libraries()}))
"""
VERB = "import sys; from ratchet.cli.main import main; sys.exit(main({}))"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """The library as a wheel installs it, beside packages `tasks`, `docker` and `local` of other people."""
    shutil.copytree(ROOT / "ratchet", tmp_path / "ratchet", ignore=shutil.ignore_patterns("__pycache__"))
    for other in ("tasks", "docker", "local"):
        (tmp_path / other).mkdir()
        (tmp_path / other / "__init__.py").write_text("OWNER = 'someone else'\n")
    return tmp_path


def run(packages: Path, program: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-c", program], cwd="/", env=environment, capture_output=True, text=True, check=False
    )


def test_a_wheel_beside_foreign_packages_plans_as_the_checkout(packages: Path) -> None:
    write_record(packages / "ratchet")
    done = run(packages, FACTS)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "code": {stage: stage_code(stage) for stage in STAGES},
        "libraries": stage_libraries(),
    }


@pytest.mark.parametrize(
    ("fact", "missing"),
    [
        ("release.stage_code('train')", "the code of the stage train"),
        ("release.stage_libraries()", "the lock file docker/stage.txt"),
    ],
)
def test_a_library_without_the_record_and_the_files_says_what_is_missing(
    packages: Path, fact: str, missing: str
) -> None:
    done = run(packages, f"from ratchet.runtime import release\n{fact}\n")
    assert f"{packages} has neither {missing} nor ratchet/release.json; to do: install a wheel" in done.stderr


def test_a_foreign_package_local_gives_no_verb(packages: Path) -> None:
    done = run(packages, VERB.format(["status"]))
    assert done.returncode == 2
    assert "invalid choice: 'status'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_checkout_has_the_verbs_of_its_set_up() -> None:
    done = run(ROOT, VERB.format(["status", "--help"]))
    assert done.returncode == 0, done.stderr
    assert "usage: ratchet status" in done.stdout


def test_a_stage_that_is_not_installed_says_what_to_install(packages: Path, tmp_path: Path) -> None:
    document = {**SPEC, "source": {"kind": "files", "uri": "/data/{date}.parquet", "window_days": 3}}
    world = World(folder=tmp_path / "world", store=FileStore(tmp_path / "store"), document=document)
    (tmp_path / "request.json").write_text(world.request("report").model_dump_json(by_alias=True))
    done = run(packages, VERB.format(["stage", str(tmp_path / "request.json")]))
    assert done.returncode == ExitCode.BAD_CONFIGURATION, done.stderr
    assert "the code of the stage report is not installed here; to do: install the wheel ratchet-stages" in done.stdout
