"""Keeps servers running until SIGTERM, and writes their state to a file.

A change here violates the promise of the project when: two supervisors keep the servers of one home; a server outlives
a supervisor that was stopped; or the supervisor ends a process that another program started.
"""

import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from local.supervision import processes
from local.supervision.server import Server
from local.supervision.service import RestartPolicy, Service
from local.supervision.state import Servers, read, write
from ratchet.contracts.errors import ConfigurationError

STOP_S = 20.0
"""The default time between SIGTERM and SIGKILL."""
_POLL_S = 0.2
_STARTING_S = 2.0
"""If a supervisor is killed while it starts a child, the child holds the lock until its exec."""
_POLICY = RestartPolicy()


def supervise(
    services: Sequence[Service], home: Path, *, policy: RestartPolicy = _POLICY, stop_s: float = STOP_S
) -> bool:
    """Run the services of a home until SIGTERM or SIGINT. SIGHUP: retry the services that were given up.

    stop_s: seconds between SIGTERM and SIGKILL for the servers. Returns False at once if another process supervises the
    home. Call it from the main thread of a separate process.
    """
    home.mkdir(parents=True, exist_ok=True)
    with _lock(home) as locked:
        if locked:
            _Supervisor(services, home, policy, stop_s).run()
    return locked


def end_orphans(home: Path, grace_s: float = STOP_S) -> list[str]:
    """End the servers that a killed supervisor of this home left. Returns their names; none if a supervisor lives."""
    if read(home) is None:
        return []
    with _lock(home) as locked:
        return _end_orphans(home, grace_s) if locked else []


@contextmanager
def _lock(home: Path) -> Iterator[bool]:
    """Hold the lock of a home, for its supervisor. Yields whether it was free."""
    with (home / "supervisor.lock").open("wb") as file:
        until = time.monotonic() + _STARTING_S
        while not (locked := _try_lock(file)) and not _is_supervised(home) and time.monotonic() < until:
            time.sleep(0.02)
        yield locked


def _try_lock(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_supervised(home: Path) -> bool:
    """Whether the supervisor that wrote the state of this home is alive."""
    known = read(home)
    return known is not None and processes.is_alive(known.supervisor)


def _end_orphans(home: Path, grace_s: float) -> list[str]:
    known = read(home)
    if known is None:
        return []
    sessions = {
        server.process.pid: server.name
        for server in known.servers
        if server.process is not None and processes.owns_session(server.process)
    }
    names = [name for pid, name in sessions.items() if processes.members({pid})]
    processes.end(sessions, grace_s)
    ended = {"state": "stopped", "process": None, "since": datetime.now(UTC)}
    servers = (s if s.state == "stopped" else s.model_copy(update=ended) for s in known.servers)
    write(home, known.model_copy(update={"servers": tuple(servers)}))
    return names


class _Supervisor:
    def __init__(self, services: Sequence[Service], home: Path, policy: RestartPolicy, stop_s: float) -> None:
        names = [service.name for service in services]
        for service in services:
            if service.after and service.after not in names:
                raise ConfigurationError(
                    f"{service.name} waits for {service.after!r}; there are: {', '.join(names)}",
                    remedy="name one of them",
                )
        self._home = home
        self._stop_s = stop_s
        self._servers = {service.name: Server(service, home, policy, _log) for service in services}
        self._identity = processes.identity(os.getpid())
        self._written: Servers | None = None
        self._stopping = False
        self._retry = False

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        for name in _end_orphans(self._home, self._stop_s):
            _log(f"{name}: ended a process that an earlier supervisor left")
        try:
            while not self._stopping:
                self._poll()
                time.sleep(_POLL_S)
        finally:
            self._stop()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._retry = True
        else:
            self._stopping = True

    def _poll(self) -> None:
        retry, self._retry = self._retry, False
        for server in self._servers.values():
            if retry:
                server.retry()
            before = server.service.after
            server.poll(may_start=not before or self._servers[before].state.state in {"done", "running"})
            self._save_state()
            processes.keep_short(Path(server.state.log))

    def _stop(self) -> None:
        """End servers without an address first, because their tasks report to the others."""
        clients = [server for server in self._servers.values() if not server.service.health]
        _end(clients, self._stop_s)
        self._save_state()
        _end((server for server in self._servers.values() if server.service.health), self._stop_s)
        self._save_state()

    def _save_state(self) -> None:
        state = Servers(supervisor=self._identity, servers=tuple(server.state for server in self._servers.values()))
        if state != self._written:
            write(self._home, state)
            self._written = state


def _end(servers: Iterable[Server], grace_s: float) -> None:
    ending = list(servers)
    processes.end([server.session for server in ending if server.session is not None], grace_s)
    for server in ending:
        server.mark_stopped()


def _log(what: str) -> None:
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {what}", file=sys.stderr, flush=True)  # noqa: T201 - its log
