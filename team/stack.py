"""The containers of the stack: Docker Compose starts and stops them, and the engine reports their state."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import docker
from docker.errors import APIError, NotFound

from ratchet.contracts.collection import Policy, parse_policy
from ratchet.contracts.environment import variable
from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.contracts.labels import STAGE_USER, Label
from ratchet.runners.engine import answers, connect, remove_container
from ratchet_airflow.pools import given_pools
from team import secret_files
from team.cpu_limits import cpu_limits
from team.settings import Settings

"""The label by which the engine's filter marks the stage containers of a stack."""
ONCE = frozenset({"init"})
"""Services that run once and end."""
WORKING = ("engine", "worker-gpu", "follower", "reaper", "logs")
"""The services on a host that only has a worker."""
_COMPOSE_S = 600
_GRACE = re.compile(r"[0-9]{1,6}")
_GRACE_S = 30
"""Of a stage container without a valid label."""
_RESTARTS = 5
"""A container with this many restarts has failed; one with fewer may wait for another service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A container of the stack. state: starting, healthy, unhealthy, done, failed (CODE), or the engine's own word."""

    service: str
    name: str
    state: str
    container: str

    @property
    def well(self) -> bool:
        """Whether it is healthy, or done."""
        return self.state in {"healthy", "done"}

    @property
    def failed(self) -> bool:
        """Whether it will not become healthy."""
        return self.state.startswith("failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class StageContainer:
    """A container of a stage. grace_s: its seconds between SIGTERM and SIGKILL."""

    handle: str
    running: bool
    grace_s: int


@dataclass(frozen=True, slots=True)
class Starting:
    """A Compose process that is running."""

    process: subprocess.Popen[bytes]
    errors: IO[bytes]

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    def end(self) -> None:
        """Terminate it."""
        self.process.terminate()
        self.process.wait(timeout=30)

    def failed(self) -> str:
        """The end of its errors if it has failed; else empty."""
        if not self.process.poll():
            return ""
        self.errors.seek(0)
        return _last(self.errors.read()) or f"docker compose ended with {self.process.returncode}"


class Stack:
    """One installation of docker-compose.yaml: its settings, its secrets, its containers."""

    def __init__(self, root: Path, settings: Settings, images: Mapping[str, str]) -> None:
        """root: the checkout. images: the values of the RATCHET_..._IMAGE variables."""
        self.root = root
        self.settings = settings
        self.home = root / ".ratchet" / "team" / settings.project
        self.secrets = self.home / "secrets"
        self._images = images

    @property
    def owner(self) -> int:
        """The user id of the services: the caller's own; for root, one without rights."""
        return os.getuid() or STAGE_USER

    def environment(self) -> dict[str, str]:
        """The environment of Compose."""
        ours = ("RATCHET_", "COMPOSE_", "AWS_", "MLFLOW_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return {
            **kept,
            **self.settings.variables(),
            **cpu_limits(self.settings, os.cpu_count() or 1),
            **self._images,
            variable("pools_given"): given_pools(self.settings.model_dump()),
            "RATCHET_UID": str(self.owner),
            "RATCHET_SECRETS": str(self.secrets),
            "RATCHET_SECRETS_DIGEST": secret_files.digest(self.secrets),
            "COMPOSE_HTTP_TIMEOUT": "180",
        }

    def begin(self, *words: str) -> "Starting":
        """`docker compose WORDS`, without waiting for its end."""
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - for as long as the process
        process = subprocess.Popen(
            self._command(words),
            cwd=self.root,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        return Starting(process, errors)

    def compose(self, *words: str, stdin: Any = None, stdout: Any = None) -> None:
        """`docker compose WORDS`. Raises Unavailable with the end of its errors if it fails.

        What it says beside that is not shown: Compose 1 warns of each secret that a host has not got.
        """
        limited = stdin is None and stdout is None  # a transfer of data has no time limit
        try:
            done = subprocess.run(
                self._command(words),
                cwd=self.root,
                env=self.environment(),
                stdin=stdin or subprocess.DEVNULL,
                stdout=stdout or subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=_COMPOSE_S if limited else None,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise Unavailable(
                f"docker compose {words[0]} has not ended within {_COMPOSE_S} s", remedy="run `make ps`"
            ) from error
        if done.returncode:
            raise Unavailable(
                f"docker compose {words[0]} failed: {_last(done.stderr) or f'exit code {done.returncode}'}",
                remedy="run `make logs`",
            )

    def _command(self, words: Sequence[str]) -> Sequence[str]:
        files = self.settings.files  # without -f, Compose also reads a team's override file
        named = [word for file in files for word in ("-f", str(self.root / file))] if len(files) > 1 else []
        return [*program(), "--project-directory", str(self.root), *named, *words]

    def begin_all(self) -> "Starting":
        """Have Compose start every service, and remove those that no longer exist."""
        words = ["up", "--detach", "--remove-orphans"]
        if self.settings.main_host:
            return self.begin(*words, "--no-deps", *WORKING, *(["pipelines"] if self.settings.has_git else []))
        return self.begin(*words, *self.scale())

    def scale(self) -> list[str]:
        """The number of each service that may differ from one."""
        counts = {"worker": self.settings.workers, "worker-gpu": self.settings.gpu_workers}
        counts |= dict.fromkeys(self.settings.elsewhere, 0)
        counts["follower"] = 0  # of a host that only works: here the triggerer reaches the engine
        counts["pipelines"] = int(self.settings.has_git)
        policy = parse_policy(self.settings.gc)
        counts["rows"] = int(isinstance(policy, Policy) and policy.weekly)
        return [word for service, count in counts.items() for word in ("--scale", f"{service}={count}")]

    def members(self) -> list[Member]:
        """Every container of the stack, by service. Raises ConfigurationError if they are another checkout's."""
        with answers():
            found = self._api.containers(
                all=True, filters={"label": [f"com.docker.compose.project={self.settings.project}"]}
            )
            places = {container["Labels"].get("com.docker.compose.project.working_dir") for container in found}
            if others := places - {None, str(self.root)}:
                raise ConfigurationError(
                    f"the containers of {self.settings.project} belong to another checkout, {min(map(str, others))}",
                    remedy="set RATCHET_PROJECT, and other ports, in .env",
                )
            members = [self._member(container["Id"], container["Labels"]) for container in found]
        return sorted((member for member in members if member), key=lambda each: each.name)

    def wait_for(self, *services: str, seconds: float = 180) -> None:
        """Wait until these services are healthy. Raises Unavailable after the time."""
        until = time.monotonic() + seconds
        while ill := [member for member in self.members() if member.service in services and not member.well]:
            if time.monotonic() > until:
                raise Unavailable(f"{ill[0].name} is {ill[0].state}", remedy="run `make logs`")
            time.sleep(0.5)

    def stages(self) -> list[StageContainer]:
        """The stage containers of this installation."""
        with answers():
            found = self._api.containers(all=True, filters={"label": [f"{Label.INSTALLATION}={self.settings.project}"]})
        return [
            StageContainer(
                handle=container["Id"],
                running=container["State"] in {"running", "paused"},
                grace_s=_grace_of(container["Labels"]),
            )
            for container in found
        ]

    def end_stages(self, stages: Sequence[StageContainer]) -> None:
        """Stop and remove them, all at the same time, each with its own grace."""

        def end(stage: StageContainer) -> None:
            with answers(), connect() as api:
                with suppress(APIError):  # it is gone, or was not paused
                    api.unpause(stage.handle)
                with suppress(NotFound):
                    api.stop(stage.handle, timeout=stage.grace_s)
                remove_container(api, stage.handle)

        with ThreadPoolExecutor(max_workers=max(1, len(stages))) as pool:
            for ended in [pool.submit(end, stage) for stage in stages]:
                ended.result()

    def forget(self) -> None:
        """Delete what Compose does not manage: the secrets, and the cache, which the first stage created."""
        with answers(), suppress(NotFound):
            self._api.remove_volume(f"{self.settings.project}_cache")
        shutil.rmtree(self.home, ignore_errors=True)

    def log_tail(self, member: Member, lines: int = 15) -> list[str]:
        """The end of a container's log."""
        with answers():
            said: bytes = self._api.logs(member.container, tail=lines)
        return said.decode(errors="replace").splitlines()

    def _member(self, container: str, labels: Mapping[str, str]) -> Member | None:
        service = labels["com.docker.compose.service"]
        try:
            inspected = self._api.inspect_container(container)
        except NotFound:  # it was replaced just now
            return None
        state: dict[str, Any] = inspected["State"]
        word = state.get("Health", {}).get("Status") or state["Status"]
        if service in ONCE and state["Status"] == "exited":
            word = "done" if state["ExitCode"] == 0 else f"failed ({state['ExitCode']})"
        elif inspected["RestartCount"] >= _RESTARTS:
            word = f"failed ({state['ExitCode']})"
        elif state["Status"] != "running":
            word = f"{state['Status']} ({state['ExitCode']})"
        return Member(service=service, name=inspected["Name"].lstrip("/"), state=word, container=container)

    @cached_property
    def _api(self) -> docker.APIClient:
        return connect()


def program() -> Sequence[str]:
    """`docker compose`, or docker-compose if there is no such plugin."""
    for words in (("docker", "compose"), ("docker-compose",)):
        if (
            shutil.which(words[0])
            and not subprocess.run([*words, "version"], capture_output=True, check=False).returncode
        ):
            return words
    raise ConfigurationError(
        "Docker Compose is not installed", remedy="install it: apt-get install docker-compose, or Docker's own plugin"
    )


def _grace_of(labels: Mapping[str, str]) -> int:
    """The grace in a label, which a worker wrote and which may be anything."""
    said = labels.get(Label.GRACE, "")
    return int(said) if _GRACE.fullmatch(said) else _GRACE_S


def _last(said: bytes) -> str:
    return " / ".join(said.decode(errors="replace").strip().splitlines()[-3:])
