"""Airflow finds the plugin and the policy by the wheel's entry points, in its plugins folder, or both: and has each once."""

import json
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ratchet.contracts.release_number import RELEASE
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

BACKFILL = """
import json
from datetime import UTC, datetime
from airflow import settings
from airflow.models.dagbundle import DagBundleModel
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.serialization.definitions.dag import SerializedDAG
from airflow.serialization.serialized_objects import DagSerialization, LazyDeserializedDAG
from airflow.utils.db import initdb
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunTriggeredByType, DagRunType

day = datetime(2026, 1, 2, tzinfo=UTC)
with DAG("nightly", schedule="@daily", start_date=day) as dag:
    EmptyOperator(task_id="train", pool="ratchet_cpu", pool_slots=2, priority_weight=10, weight_rule="absolute")
written = DagSerialization.to_dict(dag)
initdb()
with settings.Session() as session:
    session.add(DagBundleModel(name="dags"))
    session.commit()
    SerializedDAG.bulk_write_to_db("dags", None, [LazyDeserializedDAG(data=written)], session=session)
    SerializedDagModel.write_dag(LazyDeserializedDAG(data=written), bundle_name="dags", session=session)
    session.commit()
    DagSerialization.from_dict(written).create_dagrun(
        run_id="backfill", logical_date=day, data_interval=(day, day), run_after=day, session=session,
        run_type=DagRunType.BACKFILL_JOB, triggered_by=DagRunTriggeredByType.BACKFILL, state=DagRunState.QUEUED,
    )
    session.commit()
    task = session.query(TaskInstance).one()
    print(json.dumps([task.pool, task.pool_slots, task.priority_weight]))
"""
PLACES = pytest.mark.parametrize("places", [("wheel",), ("folder",), ("wheel", "folder")], ids=" and ".join)


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


def answer(program: str, places: tuple[str, ...], libraries: Path, installed: Path, home: Path) -> Any:
    """The last line that a program prints where Airflow finds Ratchet in these places."""
    (home / "none").mkdir()
    (home / "program.py").write_text(program)
    path = [installed if "wheel" in places else ROOT, libraries]
    printed = run(
        sys.executable, "-S", "-W", "ignore", home / "program.py",
        env=environment(
            PYTHONPATH=":".join(map(str, path)),
            AIRFLOW_HOME=str(home),
            AIRFLOW__CORE__LOAD_EXAMPLES="False",
            AIRFLOW__CORE__PLUGINS_FOLDER=str(ROOT / "plugins" if "folder" in places else home / "none"),
            RATCHET_POOL_CPU="4",
            RATCHET_POOL_BACKFILL="1",
        ),
    )  # fmt: skip
    return json.loads(printed.splitlines()[-1])


@PLACES
def test_airflow_has_the_plugin_and_the_policy_once(
    libraries: Path, installed: Path, tmp_path: Path, places: tuple[str, ...]
) -> None:
    home = installed if "wheel" in places else ROOT / "plugins"
    source = f"ratchet=={RELEASE}" if "wheel" in places else "$PLUGINS_FOLDER/ratchet_plugin.py"
    found = answer(PROGRAM, places, libraries, installed, tmp_path)
    assert found == {**ONCE, "plugins": [source], "from": str(home / "ratchet_airflow")}


@PLACES
def test_a_task_of_a_backfill_yields_to_nights(
    libraries: Path, installed: Path, tmp_path: Path, places: tuple[str, ...]
) -> None:
    assert answer(BACKFILL, places, libraries, installed, tmp_path) == ["ratchet_backfill", 1, 1]
