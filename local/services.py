"""The servers of the embedded set-up, on loopback and on SQLite, as one: their ports, passwords, start and end."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from local import passwords, ports
from local.supervision import processes, state
from local.supervision.supervisor import STOP_S, end_orphans
from ratchet.contracts.environment import variable
from ratchet.contracts.errors import Unavailable
from ratchet.runners.devices import host_devices
from ratchet.runners.engine import engine_available
from ratchet_airflow.pools import POOLS, given_pools

_READY_S = 180
_LOCK_S = 30
"""How long a statement waits for SQLite's lock."""
_PATIENCE = {
    # A task counts as lost 60 s after its worker was killed, and 30 s after its scheduler was killed: at the next
    # check after SCHEDULER_HEALTH_CHECK_THRESHOLD.
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
    # A task waits two minutes for an API server that is down. One request waits longer than the API server waits for
    # SQLite's lock: a change of state that is sent twice is refused the second time.
    "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": str(_LOCK_S + 10),
    "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "24",
    "AIRFLOW__WORKERS__EXECUTION_API_RETRY_WAIT_MIN": "1",
    "AIRFLOW__WORKERS__EXECUTION_API_RETRY_WAIT_MAX": "10",
}

_DEFER_S = "60"
_IDLE = "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME"
_PARALLELISM = "AIRFLOW__CORE__PARALLELISM"


def _runner() -> dict[str, str]:
    """Containers, where an engine answers now: its socket is gone while it restarts, and no night is to miss it."""
    if os.environ.get(variable("runner")) or engine_available() is not None:
        return {}
    return {variable("runner"): "docker"}


class Services:
    """Starts, finds and stops the servers whose state is in `home`. It touches no other process."""

    def __init__(
        self,
        root: Path,
        home: Path,
        *,
        airflow_port: int = 8080,
        mlflow_port: int = 5000,
        data: str | None = None,
        store: str | None = None,
    ) -> None:
        """airflow_port, mlflow_port: the preferred ports, used if they are free; 0 is any free port.

        data, store: RATCHET_DATA and RATCHET_STORE of the servers, if they are not in `home`.
        """
        self._preferred_ports = {"airflow": airflow_port, "mlflow": mlflow_port}
        self.root = root
        self.home = home
        self.data = home / "data"
        self._data = data or str(self.data)
        self.store = store or str(home / "store")
        self.airflow_home = home / "airflow"
        self.user = passwords.ADMIN
        self._started: subprocess.Popen[bytes] | None = None
        self._start_time = datetime.min.replace(tzinfo=UTC)

    def start(self) -> None:
        """Start the servers that do not run. Returns at once; `wait` waits until all servers run."""
        self.home.mkdir(parents=True, exist_ok=True)
        self._ports()
        self._password_file()
        self._start_time = datetime.now(UTC)
        known = self._known()
        if known is not None:
            os.kill(known.supervisor.pid, signal.SIGHUP)  # it retries what it has given up
            return
        with (self.home / "supervisor.log").open("ab") as out:
            self._started = subprocess.Popen(
                [sys.executable, "-m", "local.supervise_services", str(self.root), str(self.home)],
                env=self.environment(),
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Wait until every server runs. Raises Unavailable with the path of the log if one does not."""
        until = time.monotonic() + _READY_S
        while True:
            known = self._known()
            waiting = [] if known is None else [s for s in known.servers if s.state not in {"running", "done"}]
            if known is not None and not waiting:
                return
            for server in waiting:
                if server.state == "given up" and server.since > self._start_time:
                    raise Unavailable(f"{server.name} does not start: {server.cause}", remedy=f"read {server.log}")
            if self._started is not None and self._started.poll() is not None and known is None:
                raise Unavailable("the supervisor ended", remedy=f"read {self.home / 'supervisor.log'}")
            if time.monotonic() > until:
                names = ", ".join(server.name for server in waiting) or "the supervisor"
                raise Unavailable(f"{names} did not start within {_READY_S} s", remedy=f"read the logs in {self.home}")
            time.sleep(0.2)

    def stop(self) -> list[str]:
        """End the servers that `start` started. Returns their names."""
        known = self._known()
        ended = []
        if known is not None:
            ended = [server.name for server in known.servers if server.process is not None]
            with contextlib.suppress(ProcessLookupError):
                os.kill(known.supervisor.pid, signal.SIGTERM)
            until = time.monotonic() + 2 * STOP_S + 5  # clients end before their servers
            while processes.is_alive(known.supervisor) and time.monotonic() < until:
                time.sleep(0.1)
            if processes.is_alive(known.supervisor):
                os.kill(known.supervisor.pid, signal.SIGKILL)
        if self._started is not None:
            if known is None:
                self._started.terminate()  # it has written no state yet, or has ended
            self._started.wait()
            self._started = None
        return [*ended, *(name for name in end_orphans(self.home) if name not in ended)]

    @property
    def airflow_url(self) -> str:
        """The address of Airflow's UI and API."""
        return f"http://127.0.0.1:{self._ports()['airflow']}"

    @property
    def mlflow_url(self) -> str:
        """The address of MLflow's UI and API."""
        return f"http://127.0.0.1:{self._ports()['mlflow']}"

    @property
    def password(self) -> str:
        """The password of the Airflow user."""
        return passwords.password(self._password_file(), self.user)

    @property
    def watch_address(self) -> str:
        """Airflow's server, with the user and the password of the watch."""
        password = passwords.password(self._password_file(), passwords.WATCH)
        return self.airflow_url.replace("://", f"://{passwords.WATCH}:{password}@")

    @property
    def installation(self) -> str:
        """The name of this Airflow in the ids of its runs. A home whose database is gone with it has another one."""
        file = self._state("installation")
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(os.environ.get(variable("installation")) or secrets.token_hex(4), encoding="utf-8")
        return file.read_text(encoding="utf-8")

    def running_environment(self) -> dict[str, str] | None:
        """The environment of the servers that run; None if there are none. Raises ConfigurationError if not ours."""
        known = self._known()
        return processes.environment(known.supervisor) if known is not None else None

    def environment(self) -> dict[str, str]:
        """The environment of the servers: the caller's, and Ratchet's settings."""
        binaries = str(Path(sys.executable).parent)
        return {
            **os.environ,
            "PATH": f"{binaries}:{os.environ.get('PATH', '')}",
            "PYTHONPATH": f"{self.root}:{self.root / 'plugins'}",
            "PYTHONWARNINGS": "ignore",
            variable("data"): self._data,
            variable("store"): self.store,
            variable("tracking_uri"): self.mlflow_url,
            variable("installation"): self.installation,
            **_runner(),
            # The same for each server, whatever it sees of the machine.
            variable("pools_given"): self._pools_given(),
            variable("pool_cpu"): os.environ.get(variable("pool_cpu")) or str(os.cpu_count() or 1),
            # A stage that runs longer needs no worker. The way to the triggerer and back costs some ten seconds.
            variable("defer_seconds"): os.environ.get(variable("defer_seconds")) or _DEFER_S,
            variable("pool_gpu"): os.environ.get(variable("pool_gpu")) or str(len(host_devices().names) or 1),
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # background jobs that Ratchet does not use
            "GIT_PYTHON_REFRESH": "quiet",
            "NO_PROXY": "127.0.0.1,localhost",
            "AIRFLOW_HOME": str(self.airflow_home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.root / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(self.root / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": os.environ.get(_PARALLELISM, "4"),
            # The next task starts without a pause. A machine with other work may want a longer one.
            _IDLE: os.environ.get(_IDLE, "0.1"),
            **{name: os.environ.get(name, usual) for name, usual in _PATIENCE.items()},
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.airflow_url}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": passwords.USERS,
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self._password_file()),
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self._ports()["airflow"]),
            "AIRFLOW__API__BASE_URL": self.airflow_url,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__DATABASE__CHECK_MIGRATIONS": "False",  # `migrate` has just run them
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.airflow_home / 'airflow.db'}?timeout={_LOCK_S}",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(self.airflow_home / "logs"),
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        }

    @staticmethod
    def _pools_given() -> str:
        """The pools whose slots the caller has set. The supervisor keeps what it was started with."""
        passed_on = os.environ.get(variable("pools_given"))
        return given_pools({name: os.environ.get(variable(name)) for name in POOLS}) if passed_on is None else passed_on

    def addresses(self) -> tuple[str, ...]:
        """Lines for a person: the addresses of the servers and the store, and the login."""
        return (
            f"Airflow {self.airflow_url} (log in as {self.user}, password {self.password})",
            f"MLflow  {self.mlflow_url}",
            f"store   {self.store}",
        )

    def _known(self) -> state.Servers | None:
        """The state that the supervisor of this home wrote; None if it is not alive."""
        known = state.read(self.home)
        return known if known is not None and processes.is_alive(known.supervisor) else None

    def _state(self, name: str) -> Path:
        return self.home / name

    def _ports(self) -> dict[str, int]:
        """The ports, which are chosen once for each home."""
        return ports.chosen(self._state("ports.json"), self._preferred_ports)

    def _password_file(self) -> Path:
        file = self.airflow_home / "simple_auth_manager_passwords.json.generated"
        passwords.prepare(file)
        return file
