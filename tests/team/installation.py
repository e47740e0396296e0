"""A whole team set-up of a test's own: started by `python -m team up`, asked from outside, and taken down again."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from configparser import ConfigParser
from contextlib import contextmanager
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import boto3
import docker
from botocore.config import Config
from docker.errors import APIError
from docker.models.containers import Container

from local.airflow_api import AirflowApi
from ratchet.contracts.labels import Label
from ratchet.samples import clicks, payments
from ratchet.store.base import Store
from ratchet.store.opening import open_store
from team.settings_file import read
from team.stack import Stack
from tests.waiting import until

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
DAYS, ROWS = 20, 6000
LAST = date(2026, 11, 20)
ENDED = ("success", "failed")
BUCKETS = ("mlflow", "ratchet", "sources")
# By these a make knows that another make started it, and prints the folder that it enters.
_OF_AN_OUTER_MAKE = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")


class TeamStack:
    """One installation, on ports of its own."""

    def __init__(self, project: str) -> None:
        self.project = project
        self.ports = dict(zip(("airflow", "mlflow", "s3"), free_ports(3), strict=True))
        self.home = ROOT / ".ratchet" / "team" / project
        self._settings = {
            "RATCHET_PROJECT": project,
            "RATCHET_HEARTBEAT_TIMEOUT": "30",  # so that a lost task is found sooner than in the field
            "RATCHET_POOL_CPU": "4",  # so that both examples go at once on two cores
            **{f"RATCHET_{name.upper()}_PORT": str(port) for name, port in self.ports.items()},
        }

    def team(self, *words: str, seconds: float = 600, fails: bool = False) -> str:
        """`python -m team WORDS`; what it prints."""
        return self._run([sys.executable, "-m", "team", *words], seconds=seconds, fails=fails)

    def typed(self, text: str) -> str:
        """What lines print that a person types in the checkout, with the settings of this stack."""
        return self._run(["bash", "-ec", text])

    def _run(self, words: list[str], *, seconds: float = 600, fails: bool = False) -> str:
        done = subprocess.run(
            words,
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if name not in _OF_AN_OUTER_MAKE} | self._settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert bool(done.returncode) == fails, done.stdout
        return done.stdout

    def use(self, configuration: Path) -> None:
        """From now on, have Docker's command line configured like this."""
        self._settings["DOCKER_CONFIG"] = str(configuration)

    def use_settings(self, **settings: str) -> None:
        """From now on, with these settings, too."""
        self._settings |= settings

    def use_pipelines(self, folder: Path) -> Path:
        """From now on, with the pipelines in a new folder below this one."""
        self.pipelines = folder / "pipelines"
        self.use_settings(RATCHET_PIPELINES=str(self.pipelines))
        return self.pipelines

    @property
    def seen(self) -> Stack:
        """The stack as its own code sees it."""
        return Stack(ROOT, read(ROOT / ".env", self._settings), {})

    def secret(self, name: str) -> str:
        """The content of one of the secret files."""
        return (self.home / "secrets" / name).read_text(encoding="utf-8")

    def made(self) -> dict[str, str]:
        """Everything that was drawn by chance."""
        found: dict[str, str] = json.loads(self.secret("made.json"))
        return found

    def secrets(self) -> set[bytes]:
        """Everything that was drawn by chance and is nobody else's business; of S3's private key, each line."""
        kept = [value for name, value in self.made().items() if name != "s3-certificate"]
        return {line.encode() for value in kept for line in value.splitlines() if not line.startswith("-----")}

    def leaks(self, places: Mapping[str, bytes], *more: str) -> list[str]:
        """The places, by name, whose content has a secret in it, or one of these other words."""
        wanted = self.secrets() | {word.encode() for word in more}
        return [place for place, content in places.items() if any(secret in content for secret in wanted)]

    @property
    def api(self) -> AirflowApi:
        """A client of Airflow that is logged in as its first user."""
        return AirflowApi(f"http://127.0.0.1:{self.ports['airflow']}", "admin", self.secret("airflow-admin-password"))

    def person(self, role: str) -> AirflowApi:
        """A client of Airflow that is logged in as a new user with this role."""
        name, password = role.lower(), secrets.token_hex(16)
        words = ["airflow", "users", "create", "--username", name, "--password", password, "--role", role]
        words += ["--email", f"{name}@example.org", "--firstname", role, "--lastname", "Test"]
        made = self.service("scheduler").exec_run(["with-secrets", *words])
        assert made.exit_code == 0, made.output.decode()
        return AirflowApi(f"http://127.0.0.1:{self.ports['airflow']}", name, password)

    @property
    def s3(self) -> Any:
        """A client of S3 with all rights."""
        return boto3.client(
            "s3",
            endpoint_url=self.s3_url,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}),
            **self._keys(),
        )

    @property
    def s3_url(self) -> str:
        """S3 as this machine sees it."""
        return f"http://127.0.0.1:{self.ports['s3']}"

    @contextmanager
    def store(self, endpoint: str | None = None) -> Iterator[Store]:
        """The stack's store, seen from here."""
        keys = self._keys()
        settings = {
            "AWS_ENDPOINT_URL": endpoint or self.s3_url,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": keys["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": keys["aws_secret_access_key"],
        }
        with patch.dict(os.environ, settings):
            yield open_store("s3://ratchet")

    def objects(self) -> Iterator[tuple[str, bytes]]:
        """The content of each object by `bucket/key`."""
        client = self.s3
        for bucket in BUCKETS:
            for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
                for found in page["Contents"]:
                    answer = client.get_object(Bucket=bucket, Key=found["Key"])
                    yield f"{bucket}/{found['Key']}", answer["Body"].read()

    def mlflow(self) -> dict[str, str]:
        """The environment of a program that talks to MLflow as its administrator."""
        return {
            **os.environ,
            "MLFLOW_TRACKING_URI": f"http://127.0.0.1:{self.ports['mlflow']}",
            "MLFLOW_TRACKING_USERNAME": "admin",
            "MLFLOW_TRACKING_PASSWORD": self.secret("mlflow-admin-password"),
            "MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD": "false",
        }

    def upload_samples(self, folder: Path) -> None:
        """Example data for both examples, in the bucket of sources.

        The days up to today have data too, or the first scheduled night would wait for its own: it fails at once, since
        the other days of its window have none.
        """
        today = datetime.now(UTC).date()
        for sample in (clicks, payments):
            for end, days in ((LAST, DAYS), (today, 3)):
                for path in sample.write(folder, days=days, rows_per_day=ROWS, end=end, seed=0):
                    self.s3.upload_file(str(path), "sources", str(path.relative_to(folder)))

    def trigger(self, dag_id: str, **conf: Any) -> str:
        """A run by REST, as of the last day of data; its id."""
        api = self.api
        api.wait_for_dag(dag_id)
        api.call("PATCH", f"/dags/{dag_id}", {"is_paused": False})
        body = {"logical_date": None, "conf": {"date": LAST.isoformat(), "window_days": DAYS, **conf}}
        return str(api.call("POST", f"/dags/{dag_id}/dagRuns", body)["dag_run_id"])

    def ended(self, dag_id: str, run_id: str, *, seconds: float = 450) -> dict[str, str]:
        """Wait until a run has ended; the states of its tasks, and its own under `run`."""

        def states() -> dict[str, str] | None:
            state = str(api.run(dag_id, run_id)["state"])
            if state not in ENDED:
                return None
            return {"run": state, **{name: str(task["state"]) for name, task in api.tasks(dag_id, run_id).items()}}

        api = self.api
        return self.until(states, seconds=seconds)

    def log(self, dag_id: str, run_id: str, task_id: str, attempt: int) -> str:
        """A task's log as the UI shows it."""
        run = run_id.replace("+", "%2B")
        content = self.api.call("GET", f"/dags/{dag_id}/dagRuns/{run}/taskInstances/{task_id}/logs/{attempt}")
        return "\n".join(str(line["event"]) for line in content["content"])

    def service(self, name: str) -> Container:
        """The only container of a service."""
        (found,) = self.services(name)
        return found

    def services(self, *names: str) -> list[Container]:
        """The containers of these services; of all, if none is named."""
        wanted = [f"com.docker.compose.project={self.project}"]
        found: list[Container] = self.engine.containers.list(all=True, filters={"label": wanted})
        return [each for each in found if not names or each.labels["com.docker.compose.service"] in names]

    def stages(self, **labels: str) -> list[Container]:
        """The stage containers that are there."""
        wanted = [
            f"{Label.INSTALLATION}={self.project}",
            *(f"ratchet.{name}={value}" for name, value in labels.items()),
        ]
        found: list[Container] = self.engine.containers.list(all=True, filters={"label": wanted}, ignore_removed=True)
        return found

    def submitted(self, container: Container) -> int:
        """How many containers the workers asked for, by the log of the engine's filter, to compute what this one does."""
        lines = [json.loads(line) for line in self.service("engine").logs().splitlines() if line.startswith(b"{")]
        fingerprint = container.labels[Label.FINGERPRINT]
        made = [line for line in lines if line["event"] == "create" and "container" in line]
        return sum(line["labels"].get(Label.FINGERPRINT) == fingerprint for line in made)

    def until_training(self, dag_id: str) -> Container:
        """The container of a pipeline's training, once it runs."""

        def running() -> Container | None:
            return next(
                (each for each in self.stages(stage="train", pipeline=dag_id) if each.status == "running"), None
            )

        return self.until(running, seconds=300)  # four stages come before it

    def kill(self, service: str) -> None:
        """SIGKILL for the first process of each container of a service, as when their machine runs out of memory."""
        for container in self.services(service):
            os.kill(container.attrs["State"]["Pid"], signal.SIGKILL)

    @contextmanager
    def paused(self, service: str) -> Iterator[None]:
        """A service whose every process is paused."""
        container = self.service(service)

        def pause() -> bool | None:
            try:
                container.pause()
            except APIError as error:
                if "unable to freeze" not in str(error):  # within the engine's patience, on a busy machine
                    raise
                return None
            return True

        self.until(pause, seconds=60)
        try:
            yield
        finally:
            container.unpause()

    def until_well(self, *services: str, seconds: float = 300) -> None:
        """Wait until these services are healthy."""

        def well() -> bool | None:
            states = [each.attrs["State"].get("Health", {}).get("Status") for each in self.services(*services)]
            return True if set(states) == {"healthy"} else None

        self.until(well, seconds=seconds)

    def until(self, asked: Callable[[], T | None], *, seconds: float) -> T:
        """Ask again and again until there is an answer, something true; the answer."""
        return until(asked, seconds=seconds, every=0.5)

    @cached_property
    def engine(self) -> docker.DockerClient:
        """The engine, without any filter."""
        return docker.from_env()

    def _keys(self) -> Mapping[str, str]:
        parser = ConfigParser(interpolation=None)
        parser.read_string(self.secret("s3-admin"))
        return dict(parser["default"])


def free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
