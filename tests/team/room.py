"""Containers as the team set-up starts them: read-only, without privileges, on a network of their own."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest
from docker import DockerClient
from docker.errors import APIError
from docker.models.containers import Container

from ratchet.contracts.labels import Label
from tests.waiting import until

_LABELS = {Label.TEST: "1"}


@dataclass(frozen=True, kw_only=True)
class Service:
    """What the compose file says of a service, as far as its image is concerned."""

    image: str
    command: str | list[str] | None = None
    entrypoint: list[str] | None = None
    user: str | None = None
    caps: tuple[str, ...] = ()
    tmpfs: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    files: dict[Path, str] = field(default_factory=dict)
    """What is mounted read-only, and where."""
    data: str | None = None
    """Where the named volume is mounted."""
    healthy: str | None = None
    """A command for the container's shell that ends with 0 when the service answers."""


class Room:
    """A network and a volume; containers in it see only one another."""

    def __init__(self, engine: DockerClient) -> None:
        self.engine = engine
        self._name = f"ratchet-test-{uuid4().hex[:12]}"
        self._network = engine.networks.create(self._name, internal=True, labels=_LABELS)
        self._volume = engine.volumes.create(self._name, labels=_LABELS)
        self._containers: list[Container] = []

    def start(self, service: Service, *, wait: bool = True) -> Container:
        """Start a service, and wait until it is healthy."""
        binds = {str(path): {"bind": inside, "mode": "ro"} for path, inside in service.files.items()}
        if service.data is not None:
            binds[self._name] = {"bind": service.data, "mode": "rw"}
        container = self.engine.containers.create(
            service.image,
            service.command,
            entrypoint=service.entrypoint,
            user=service.user,
            cap_drop=["ALL"],
            cap_add=list(service.caps),
            security_opt=["no-new-privileges"],
            read_only=True,
            tmpfs=dict.fromkeys(service.tmpfs, ""),
            environment=service.env,
            volumes=binds,
            network=self._name,
            labels=_LABELS,
        )
        self._containers.append(container)
        container.start()
        if wait:
            self.wait(container, service)
        return container

    def wait(self, container: Container, service: Service, seconds: float = 60) -> None:
        """Wait until the service's health check passes; fails with its last lines when it ends or takes too long."""
        assert service.healthy is not None

        def settled() -> bool:
            container.reload()
            try:
                return container.status != "running" or container.exec_run(["sh", "-c", service.healthy]).exit_code == 0
            except APIError:  # it has ended since: the next look sees that
                return False

        try:
            until(settled, seconds=seconds)
        except AssertionError:
            pytest.fail(f"not healthy in {seconds:g} s:\n{container.logs(tail=20).decode()}")
        assert container.status == "running", container.logs(tail=20).decode()

    def again(self, container: Container, service: Service) -> Container:
        """Remove a container and start another one on the same volume."""
        container.remove(force=True, v=False)
        self._containers.remove(container)
        return self.start(service)

    def address(self, container: Container) -> str:
        container.reload()
        return str(container.attrs["NetworkSettings"]["Networks"][self._name]["IPAddress"])

    def run(self, service: Service) -> tuple[int, str]:
        """Run a command to its end: its exit code, and what it said."""
        container = self.start(service, wait=False)
        code = int(container.wait(timeout=180)["StatusCode"])
        return code, container.logs().decode()

    def clear(self) -> None:
        for container in self._containers:
            container.remove(force=True, v=True)
        self._network.remove()
        self._volume.remove(force=True)


@contextmanager
def room() -> Iterator[Room]:
    engine = DockerClient.from_env()
    place = Room(engine)
    try:
        yield place
    finally:
        place.clear()
        engine.close()
