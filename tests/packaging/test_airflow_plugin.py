"""Airflow finds the plugin and the policy by the wheel's entry points, in its plugins folder, or both: and has each once."""

import json
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT, environment, run

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("wheels")]
PROGRAM = """
import json
from airflow import plugins_manager, settings
from airflow.listeners.listener import get_listener_manager

plugins, errors = plugins_manager._get_plugins()
hook = settings.get_policy_plugin_manager().hook.task_instance_mutation_hook
import ratchet_airflow
print(json.dumps({
    "errors": errors,
    "plugins": [str(plugin.source).partition(":")[0] for plugin in plugins if plugin.name == "ratchet"],
    "timetables": [name for name in plugins_manager.get_timetables_plugins() if "ratchet" in name],
    "pages": [app["name"] for app in plugins_manager.get_fastapi_plugins()[0]],
    "listeners": [name for name, _ in get_listener_manager().pm.list_name_plugin() if "ratchet" in name],
    "policies": len(hook.get_hookimpls()),
    "is called": not settings.task_instance_mutation_hook.is_noop,
    "taken over": [name for name in ("gc", "entry_points", "yield_to_nights") if name in vars(settings)],
    "from": ratchet_airflow.__path__[0],
}))
"""
ONCE = {
    "errors": {},
    "timetables": ["ratchet_airflow.timetable.DayBeforeTimetable"],
    "pages": ["Ratchet"],
    "listeners": ["ratchet_airflow.listener"],
    "policies": 1,
    "is called": True,
    "taken over": [],
}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is installed here except Ratchet, which is installed with entry points."""
    folder = tmp_path_factory.mktemp("libraries")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "ratchet" not in path.name:
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="module")
def installed(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library's wheel, installed in a folder."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheels["ratchet"]) as archive:
        archive.extractall(folder)
    return folder


@pytest.mark.parametrize("places", [("wheel",), ("folder",), ("wheel", "folder")], ids=" and ".join)
def test_airflow_has_the_plugin_and_the_policy_once(
    libraries: Path, installed: Path, tmp_path: Path, places: tuple[str, ...]
) -> None:
    (tmp_path / "none").mkdir()
    path = [installed if "wheel" in places else ROOT, libraries]
    found = run(
        sys.executable, "-S", "-W", "ignore", "-c", PROGRAM,
        env=environment(
            PYTHONPATH=":".join(map(str, path)),
            AIRFLOW_HOME=str(tmp_path),
            AIRFLOW__CORE__LOAD_EXAMPLES="False",
            AIRFLOW__CORE__PLUGINS_FOLDER=str(ROOT / "plugins" if "folder" in places else tmp_path / "none"),
        ),
    )  # fmt: skip
    answer = json.loads(found.splitlines()[-1])
    home = installed if "wheel" in places else ROOT / "plugins"
    source = "ratchet==0.1.0" if "wheel" in places else "$PLUGINS_FOLDER/ratchet_plugin.py"
    assert answer == {**ONCE, "plugins": [source], "from": str(home / "ratchet_airflow")}
