"""The environment of the servers of `make serve`."""

import pytest

from local import services
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
