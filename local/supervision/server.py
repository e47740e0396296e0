"""One server under supervision: starts, watches and restarts its process."""

import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from signal import SIGKILL, Signals
from urllib.request import urlopen

from local.supervision import processes
from local.supervision.service import RestartPolicy, Service, delay
from local.supervision.state import ServerState, State

_PROBE_S = 2.0
_PROBE_EVERY_S = 5.0
_GRACE_S = 5.0
"""The time between SIGTERM and SIGKILL for a server that does not answer."""


class Server:
    """A service and its process. state: the state in the file."""

    def __init__(self, service: Service, home: Path, policy: RestartPolicy, log: Callable[[str], None]) -> None:
        self.service = service
        self._home = home
        self._policy = policy
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._deaths: list[float] = []
        self._next_start = 0.0
        self._answered = 0.0
        self._next_probe = 0.0
        self.state = ServerState(
            name=service.name,
            state="waiting",
            since=datetime.now(UTC),
            log=str(home / f"{service.name}.log"),
            address=service.address,
            once=service.once,
        )

    def poll(self, *, may_start: bool) -> None:
        """Check the process and its health, and start or restart it if due. may_start: whether its `after` is met."""
        now = time.monotonic()
        if self._process is not None:
            self._watch(self._process, now)
        elif (self.state.state == "waiting" and may_start) or (
            self.state.state == "restarting" and now >= self._next_start
        ):
            self._start(now)

    def retry(self) -> None:
        """Restart the server if it was given up."""
        if self.state.state == "given up":
            self._deaths.clear()
            self._set_state("waiting", restarts=0)

    @property
    def session(self) -> int | None:
        """The session of its process; None if it has no process."""
        return self._process.pid if self._process is not None else None

    def mark_stopped(self) -> None:
        """Record that the supervisor ended its session."""
        if self._process is not None:
            self._process.wait()
            self._process = None
        self._set_state("stopped", process=None)

    def _start(self, now: float) -> None:
        again = self.state.restarts + (self.state.state == "restarting")
        self.state = self.state.model_copy(update={"restarts": again})
        try:
            self._process = processes.launch(self.service, self._home, Path(self.state.log))
        except OSError as error:
            self._record_death(f"cannot start it: {error}", None)
            return
        self._answered = now
        self._next_probe = now
        born = processes.identity(self._process.pid)
        self._set_state("starting" if self.service.health or self.service.once else "running", process=born)

    def _watch(self, process: subprocess.Popen[bytes], now: float) -> None:
        if processes.has_ended(process):
            # Its workers would hold the port, and would run tasks that no process follows. They get no grace: a retry
            # finds the results that they have stored.
            processes.end({process.pid}, 0)
            code = process.wait()
            self._process = None
            if self.service.once and code == 0:
                self._set_state("done", process=None)
            else:
                self._record_death(_exit_cause(code), 128 - code if code < 0 else code)
        elif self.service.health and now >= self._next_probe:
            self._probe(process, now)

    def _probe(self, process: subprocess.Popen[bytes], now: float) -> None:
        starting = self.state.state == "starting"
        if _is_healthy(self.service.health):
            self._answered = time.monotonic()
            self._next_probe = self._answered + _PROBE_EVERY_S
            if starting:
                self._set_state("running")
            return
        allowed = self.service.start_s if starting else self.service.silent_s
        self._next_probe = time.monotonic() + (0.3 if starting else 1.0)
        if now - self._answered > allowed:
            processes.end({process.pid}, _GRACE_S)
            code = process.wait()
            self._process = None
            self._record_death(f"it did not answer for {allowed:.0f} s", 128 - code if code < 0 else code)

    def _record_death(self, cause: str, code: int | None) -> None:
        now = time.monotonic()
        self._deaths.append(now)
        wait = delay(self._policy, self._deaths, now)
        if wait is None:
            self._set_state("given up", process=None, cause=cause, exit_code=code)
            return
        self._next_start = now + wait
        self._set_state("restarting", process=None, cause=cause, exit_code=code)

    def _set_state(self, state: State, **changes: object) -> None:
        changed = {"state": state, "since": datetime.now(UTC), **changes}
        self.state = self.state.model_copy(update=changed)
        why = f": {self.state.cause}; read {self.state.log}" if state in {"restarting", "given up"} else ""
        self._log(f"{self.service.name} {state}{why}")


def _exit_cause(code: int) -> str:
    if code >= 0:
        return f"it ended with exit code {code}"
    name = Signals(-code).name
    return f"it was ended by {name}" + (" (killed by a person, or for its memory)" if -code == SIGKILL else "")


def _is_healthy(url: str) -> bool:
    try:
        with urlopen(url, timeout=_PROBE_S) as response:  # noqa: S310 - the address of a service of ours
            return bool(response.status == HTTPStatus.OK)
    except (OSError, HTTPException):
        return False
