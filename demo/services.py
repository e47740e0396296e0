"""The servers of the embedded set-up, on loopback: an MLflow server and Airflow standalone, both on SQLite."""

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from urllib.error import URLError
from urllib.request import urlopen

import psutil

from tasks.contracts.errors import Unavailable

_READY_S = 180
_STOP_S = 20


@dataclass(frozen=True, kw_only=True)
class Service:
    """A server: its name, its command, its environment, and the address that answers when it is ready."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    health: str


class Services:
    """Starts, finds and stops the servers whose state lies in `home`. What it did not start it never touches."""

    def __init__(
        self,
        root: Path,
        home: Path,
        *,
        airflow_port: int = 8080,
        mlflow_port: int = 5000,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """airflow_port, mlflow_port: where they go if nobody listens there; 0 is any free port.

        settings: RATCHET_DATA and RATCHET_STORE, where they are not to lie in `home`.
        """
        self._wanted = {"airflow": airflow_port, "mlflow": mlflow_port}
        self.root = root
        self.home = home
        self.data = home / "data"
        self._source = settings.get("RATCHET_DATA", str(self.data))
        self.store = settings.get("RATCHET_STORE", str(home / "store"))
        self.airflow_home = home / "airflow"
        self.user = "admin"
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start what does not run yet. Returns at once; `wait` waits until both answer."""
        self.home.mkdir(parents=True, exist_ok=True)
        self._ports()
        self._password_file()
        for service in self._services():
            if self._process(service.name) is None:
                self._launch(service)

    def wait(self) -> None:
        """Wait until every server answers. Raises Unavailable with the log's place if one does not, or dies."""
        for service in self._services():
            self._wait_for(service)

    def stop(self) -> list[str]:
        """End the servers that `start` started; their names."""
        ended = []
        for service in reversed(self._services()) if self._state("ports.json").is_file() else ():
            process = self._process(service.name)
            if process is not None:
                _end(process)
                ended.append(service.name)
            self._state(f"{service.name}.json").unlink(missing_ok=True)
        for started in self._started:
            started.wait()  # ended above
        return ended

    @property
    def airflow_url(self) -> str:
        """Where Airflow's UI and API are."""
        return f"http://127.0.0.1:{self._ports()['airflow']}"

    @property
    def mlflow_url(self) -> str:
        """Where MLflow's UI and API are."""
        return f"http://127.0.0.1:{self._ports()['mlflow']}"

    @property
    def password(self) -> str:
        """Of the Airflow user."""
        found: dict[str, str] = json.loads(self._password_file().read_text(encoding="utf-8"))
        return found[self.user]

    def environment(self) -> dict[str, str]:
        """What the servers see: the caller's environment, and Ratchet's settings."""
        binaries = str(Path(sys.executable).parent)
        return {
            **os.environ,
            "PATH": f"{binaries}:{os.environ.get('PATH', '')}",
            "PYTHONPATH": f"{self.root}:{self.root / 'plugins'}",
            "PYTHONWARNINGS": "ignore",
            "RATCHET_DATA": self._source,
            "RATCHET_STORE": self.store,
            "MLFLOW_TRACKING_URI": self.mlflow_url,
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # background jobs of a kind that Ratchet has no use for
            "GIT_PYTHON_REFRESH": "quiet",
            "NO_PROXY": "127.0.0.1,localhost",
            "AIRFLOW_HOME": str(self.airflow_home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.root / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(self.root / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.1",  # a task follows the one before it at once
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.airflow_url}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{self.user}:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self._password_file()),
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self._ports()["airflow"]),
            "AIRFLOW__API__BASE_URL": self.airflow_url,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.airflow_home / 'airflow.db'}",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(self.airflow_home / "logs"),
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        }

    def _services(self) -> tuple[Service, ...]:
        ports, binaries = self._ports(), Path(sys.executable).parent
        mlflow = (
            str(binaries / "mlflow"), "server", "--host", "127.0.0.1", "--port", str(ports["mlflow"]), "--workers", "1",
            "--backend-store-uri", f"sqlite:///{self.home / 'mlflow.db'}",
            "--artifacts-destination", str(self.home / "mlflow-artifacts"), "--serve-artifacts",
        )  # fmt: skip
        return (
            Service(name="mlflow", command=mlflow, environment=self.environment(), health=f"{self.mlflow_url}/health"),
            Service(
                name="airflow",
                command=(str(binaries / "airflow"), "standalone"),
                environment=self.environment(),
                health=f"{self.airflow_url}/api/v2/monitor/health",
            ),
        )

    def _state(self, name: str) -> Path:
        return self.home / name

    def _ports(self) -> dict[str, int]:
        """The ports, chosen once for the state's life: the usual ones where they are free."""
        file = self._state("ports.json")
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(
                json.dumps({name: _free_port(port) for name, port in self._wanted.items()}), encoding="utf-8"
            )
        found: dict[str, int] = json.loads(file.read_text(encoding="utf-8"))
        return found

    def _password_file(self) -> Path:
        file = self.airflow_home / "simple_auth_manager_passwords.json.generated"
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch(mode=0o600)
            file.write_text(json.dumps({self.user: secrets.token_urlsafe(12)}), encoding="utf-8")
        return file

    def _launch(self, service: Service) -> None:
        log = self._state(f"{service.name}.log")
        with log.open("ab") as out:
            process = subprocess.Popen(  # noqa: S603 - the commands above
                service.command,
                env=dict(service.environment),
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(process)
        born = psutil.Process(process.pid).create_time()
        self._state(f"{service.name}.json").write_text(json.dumps({"pid": process.pid, "born": born}), encoding="utf-8")

    def _process(self, name: str) -> psutil.Process | None:
        """The process that was started under a name, if it is still that one."""
        try:
            state = json.loads(self._state(f"{name}.json").read_text(encoding="utf-8"))
            process = psutil.Process(state["pid"])
            alive = process.create_time() == state["born"] and process.status() != psutil.STATUS_ZOMBIE
        except (FileNotFoundError, psutil.NoSuchProcess):
            return None
        return process if alive else None

    def _wait_for(self, service: Service) -> None:
        until = time.monotonic() + _READY_S
        log = self._state(f"{service.name}.log")
        while not _answers(service.health):
            if self._process(service.name) is None:
                raise Unavailable(f"{service.name} ended while it started", remedy=f"see the end of {log}")
            if time.monotonic() > until:
                raise Unavailable(f"{service.name} did not answer within {_READY_S} s", remedy=f"see the end of {log}")
            time.sleep(0.3)


def _answers(url: str) -> bool:
    with contextlib.suppress(URLError, OSError), urlopen(url, timeout=5) as response:  # noqa: S310 - loopback
        return bool(response.status == 200)  # noqa: PLR2004 - HTTP's OK
    return False


def _free_port(wanted: int) -> int:
    """The wanted port if nobody listens there, else any free one."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise Unavailable("no free port on 127.0.0.1", remedy="end something that listens there")


def _end(process: psutil.Process) -> None:
    """End a server and everything that it started: first asked, then made."""
    family = [process, *process.children(recursive=True)]
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.send_signal(signal.SIGTERM)
    _, left = psutil.wait_procs(family, timeout=_STOP_S)
    for member in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    psutil.wait_procs(left, timeout=_STOP_S)
