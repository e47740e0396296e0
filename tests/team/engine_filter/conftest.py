"""One filter and one place in the engine for the tests of a worker."""

import uuid
from collections.abc import Iterator

import docker
import pytest
from docker.utils import kwargs_from_env

from ratchet.contracts.labels import Label
from tests.team.engine_filter.running import Running, filter_process


@pytest.fixture(scope="session")
def api(stage_image: str) -> Iterator[docker.APIClient]:
    """The real engine, past the filter, to see what has happened there."""
    with docker.APIClient(**kwargs_from_env()) as client:
        yield client


@pytest.fixture(scope="session")
def place(api: docker.APIClient) -> Iterator[str]:
    """The name of an installation, its network and its cache volume, all gone at the end."""
    name = f"ratchet-test-{uuid.uuid4().hex[:12]}"
    network = api.create_network(name, internal=True, labels={Label.TEST: "1"})["Id"]
    api.create_volume(name, labels={Label.TEST: "1"})
    yield name
    for container in api.containers(all=True, filters={"label": [f"{Label.INSTALLATION}={name}"]}):
        api.remove_container(container["Id"], v=True, force=True)
    api.remove_network(network)
    api.remove_volume(name)


@pytest.fixture(scope="session")
def settings(place: str) -> dict[str, str]:
    """Of the filter, without the prefix of the variables."""
    return {
        "installation": place,
        "images": "ratchet-stage",
        "networks": place,
        "cache_volume": place,
        "max_memory": "8g",
        "max_cpus": "8",
        "max_pids": "1000",
        "max_shm": "1g",
    }


@pytest.fixture(scope="session")
def running(settings: dict[str, str]) -> Iterator[Running]:
    """A filter for all tests that do not end it."""
    with filter_process(settings) as started:
        yield started
