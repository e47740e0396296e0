"""One server under supervision: started, watched, started again."""

import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
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
"""For a server that does not answer any more, before it is made to end."""


class Server:
    """A service and the process that is it at present. `state` says how it stands."""

    def __init__(self, service: Service, home: Path, policy: RestartPolicy, say: Callable[[str], None]) -> None:
        self.service = service
        self._home = home
        self._policy = policy
        self._say = say
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

    def look(self, *, may_start: bool) -> None:
        """See how it stands now, and do what that asks for. may_start: whether what it waits for is done."""
        now = time.monotonic()
        if self._process is not None:
            self._watch(self._process, now)
        elif (self.state.state == "waiting" and may_start) or (
            self.state.state == "restarting" and now >= self._next_start
        ):
            self._start(now)

    def try_again(self) -> None:
        """Start it anew if it was given up."""
        if self.state.state == "given up":
            self._deaths.clear()
            self._becomes("waiting", restarts=0)

    @property
    def session(self) -> int | None:
        """The session of its process, if there is one."""
        return self._process.pid if self._process is not None else None

    def stopped(self) -> None:
        """Note that its session was ended on purpose."""
        if self._process is not None:
            self._process.wait()
            self._process = None
        self._becomes("stopped", process=None)

    def _start(self, now: float) -> None:
        again = self.state.restarts + (self.state.state == "restarting")
        self.state = self.state.model_copy(update={"restarts": again})
        try:
            self._process = processes.launch(self.service, self._home, Path(self.state.log))
        except OSError as error:
            self._died(f"it cannot be started: {error}", None)
            return
        self._answered = now
        self._next_probe = now
        born = processes.identity(self._process.pid)
        self._becomes("starting" if self.service.health or self.service.once else "running", process=born)

    def _watch(self, process: subprocess.Popen[bytes], now: float) -> None:
        if processes.ended(process):
            # Its workers would hold the port, and would run tasks that nobody follows. What they computed is kept
            # by whoever is asked to go on with it, so they get no time.
            processes.end({process.pid}, 0)
            code = process.wait()
            self._process = None
            if self.service.once and code == 0:
                self._becomes("done", process=None)
            else:
                self._died(_ending(code), 128 - code if code < 0 else code)
        elif self.service.health and now >= self._next_probe:
            self._probe(process, now)

    def _probe(self, process: subprocess.Popen[bytes], now: float) -> None:
        starting = self.state.state == "starting"
        if _answers(self.service.health):
            self._answered = time.monotonic()
            self._next_probe = self._answered + _PROBE_EVERY_S
            if starting:
                self._becomes("running")
            return
        allowed = self.service.start_s if starting else self.service.silent_s
        self._next_probe = time.monotonic() + (0.3 if starting else 1.0)
        if now - self._answered > allowed:
            processes.end({process.pid}, _GRACE_S)
            code = process.wait()
            self._process = None
            self._died(f"it did not answer for {allowed:.0f} s", 128 - code if code < 0 else code)

    def _died(self, cause: str, code: int | None) -> None:
        now = time.monotonic()
        self._deaths.append(now)
        wait = delay(self._policy, self._deaths, now)
        if wait is None:
            self._becomes("given up", process=None, cause=cause, exit_code=code)
            return
        self._next_start = now + wait
        self._becomes("restarting", process=None, cause=cause, exit_code=code)

    def _becomes(self, state: State, **changes: object) -> None:
        changed = {"state": state, "since": datetime.now(UTC), **changes}
        self.state = self.state.model_copy(update=changed)
        why = f": {self.state.cause}; see {self.state.log}" if state in {"restarting", "given up"} else ""
        self._say(f"{self.service.name} {state}{why}")


def _ending(code: int) -> str:
    if code >= 0:
        return f"it ended with exit code {code}"
    name = Signals(-code).name
    return f"it was ended by {name}" + (" (killed by a person, or for its memory)" if -code == SIGKILL else "")


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=_PROBE_S) as response:  # noqa: S310 - the address of a service of ours
            return bool(response.status == 200)  # noqa: PLR2004 - HTTP's OK
    except (OSError, HTTPException):
        return False
