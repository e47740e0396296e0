"""The environment of the servers of `make serve`."""

from pathlib import Path

import pytest

from local import services
from ratchet.checkout import ROOT
from ratchet.contracts.environment import variable


@pytest.mark.docker
def test_where_an_engine_answers_at_the_start_nights_keep_to_containers(
    monkeypatch: pytest.MonkeyPatch, stage_image: str
) -> None:
    assert stage_image  # an engine is here
    monkeypatch.delenv(variable("runner"), raising=False)
    assert services._runner() == {variable("runner"): "docker"}
    monkeypatch.setenv(variable("runner"), "process")
    assert services._runner() == {}


def test_without_an_engine_each_plan_looks_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(variable("runner"), raising=False)
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    assert services._runner() == {}


def test_stages_that_run_long_are_left_to_the_triggerer_unless_a_person_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = services.Services(ROOT, tmp_path, airflow_port=0, mlflow_port=0)
    monkeypatch.delenv(variable("defer_seconds"), raising=False)
    assert servers.environment()[variable("defer_seconds")] == "60"
    monkeypatch.setenv(variable("defer_seconds"), "0")
    assert servers.environment()[variable("defer_seconds")] == "0"
