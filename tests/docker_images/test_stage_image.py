"""The stage image, run as stages are: no root, nothing to write to but /tmp, no network."""

import pytest

from ratchet.contracts.labels import Label
from ratchet.runners.docker import DockerRunner
from ratchet.runners.following import follow_to_end
from ratchet.runners.job import Job

pytestmark = pytest.mark.docker


def _run(image: str, *command: str) -> list[str]:
    lines: list[str] = []
    job = Job(name="image", request=b"{}", image=image, command=command, labels={Label.TEST: "1"})
    runner = DockerRunner()
    ended = follow_to_end(runner, runner.submit(job), job, lambda line: lines.append(line.text))
    assert ended.exit_code == 0, "\n".join(lines)
    return lines


def test_ratchet_is_the_program(stage_image: str) -> None:
    assert any("stage" in line for line in _run(stage_image, "ratchet", "--help"))


def test_what_stages_import_is_there_and_compiled(stage_image: str) -> None:
    code = """if 1:
        import importlib, importlib.util, pathlib
        for name in "torch mlflow polars pandas pyarrow deltalake boto3 safetensors ratchet.cli.main tasks.train.stage".split():
            found = importlib.util.find_spec(name)
            assert found is not None and found.cached and pathlib.Path(found.cached).is_file(), name
        import getpass
        print(getpass.getuser())
    """
    assert _run(stage_image, "python", "-c", code) == ["ratchet"]


def test_a_model_version_can_be_registered_with_the_image_alone(stage_image: str) -> None:
    code = """if 1:
        import warnings; warnings.simplefilter("ignore")
        import mlflow
        from mlflow import MlflowClient
        mlflow.set_tracking_uri("sqlite:////tmp/mlflow.db")
        client = MlflowClient()
        run = client.create_run(client.create_experiment("e", artifact_location="/tmp/artifacts"))
        client.create_registered_model("m")
        version = client.create_model_version("m", source="/tmp/artifacts/m", run_id=run.info.run_id)
        client.set_registered_model_alias("m", "champion", version.version)
        print("version", client.get_model_version_by_alias("m", "champion").version)
    """
    assert _run(stage_image, "python", "-c", code)[-1] == "version 1"


def test_it_carries_no_build_tools_and_no_airflow(stage_image: str) -> None:
    code = "import importlib.util as u; print([n for n in ('airflow', 'pytest', 'pip', 'ruff') if u.find_spec(n)])"
    assert _run(stage_image, "python", "-c", code) == ["[]"]
