"""The DAG file, as Airflow's DAG processor and its workers read it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dags.pipelines import write, write_text

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "pandas", "numpy", "pyarrow", "polars", "mlflow", "great_expectations", "docker", "boto3", "apprise")
PARSE = """
import json, sys
from pathlib import Path
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization
dags = Path(sys.argv[1])
bag = DagBag(dag_folder=dags, bundle_path=dags, bundle_name="dags-folder")
serialised = {name: DagSerialization.to_dict(dag) for name, dag in sorted(bag.dags.items())}
for data in serialised.values():
    DagSerialization.from_dict(data)
print(json.dumps({"dags": serialised, "errors": bag.import_errors, "modules": sorted(sys.modules)}), file=sys.stderr)
"""


def parse(pipelines: Path, **environment: str) -> dict:
    """What the DAG folder gives in a fresh process: serialised DAGs, import errors, and every module imported."""
    home = pipelines.parent / "airflow"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PARSE, str(ROOT / "dags")],
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}",
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
            "RATCHET_PIPELINES": str(pipelines),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return json.loads(done.stderr.splitlines()[-1])


def good(folder: Path) -> Path:
    """A folder of two good pipelines and one that is none."""
    write(folder, "search-ranking")
    write(folder, "other-ranking", promote="approve")
    (folder / "notes").mkdir()
    return folder


@pytest.fixture
def pipelines(tmp_path: Path) -> Path:
    return good(tmp_path / "pipelines")


def test_every_good_folder_becomes_a_dag_and_parsing_imports_nothing_heavy(pipelines: Path) -> None:
    found = parse(pipelines)
    assert list(found["dags"]) == ["other-ranking", "ratchet-reaper", "search-ranking"]
    assert found["errors"] == {}
    assert {name.partition(".")[0] for name in found["modules"]}.isdisjoint(HEAVY)


def test_the_same_files_serialise_to_the_same_dags_so_that_no_version_is_made(pipelines: Path) -> None:
    first, second = parse(pipelines, PYTHONHASHSEED="1"), parse(pipelines, PYTHONHASHSEED="2")
    assert json.dumps(first["dags"], sort_keys=True) == json.dumps(second["dags"], sort_keys=True)


def test_broken_pipelines_are_one_error_with_every_problem_and_harm_no_other(pipelines: Path) -> None:
    write_text(pipelines, "broken", "name: broken\nepochs: many\nsource: {kind: filez}\n")
    write_text(pipelines, "torn", "name: [")
    double = write(pipelines, "z") / "pipeline.yaml"
    double.write_text(double.read_text().replace("name: z", "name: search-ranking"))
    found = parse(pipelines)
    assert list(found["dags"]) == ["other-ranking", "ratchet-reaper", "search-ranking"]
    assert list(found["errors"]) == ["broken_pipelines.py"]
    text = found["errors"]["broken_pipelines.py"]
    assert "broken/pipeline.yaml:2: epochs: unknown key" in text
    assert "did you mean files?" in text
    assert "torn/pipeline.yaml" in text
    assert "'search-ranking' is the name of the pipeline in" in text


def test_a_worker_builds_only_the_dag_that_it_runs(pipelines: Path) -> None:
    found = parse(pipelines, _AIRFLOW_PARSING_CONTEXT_DAG_ID="search-ranking")
    assert list(found["dags"]) == ["search-ranking"]


def test_a_worker_finds_a_pipeline_whose_folder_has_another_name(pipelines: Path) -> None:
    (pipelines / "search-ranking").rename(pipelines / "elsewhere")
    found = parse(pipelines, _AIRFLOW_PARSING_CONTEXT_DAG_ID="search-ranking")
    assert list(found["dags"]) == ["search-ranking"]


def test_a_worker_whose_pipeline_broke_says_why(pipelines: Path) -> None:
    write_text(pipelines, "search-ranking", "name: search-ranking\n")
    found = parse(pipelines, _AIRFLOW_PARSING_CONTEXT_DAG_ID="search-ranking")
    assert "source: is missing" in found["errors"]["ratchet.py"]
