"""Keeps servers running until it is told to stop, and writes down how they stand.

A change here violates the promise of the project when: two supervisors keep the servers of one home; a server outlives
a supervisor that was told to stop; or what another program started is ended.
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
"""How long servers have to end after they were asked, where nothing else is said."""
_TURN_S = 0.2
_STARTING_S = 2.0
"""A killed supervisor's lock lives on in a child that it was starting, until that is a program of its own."""
_POLICY = RestartPolicy()


def supervise(
    services: Sequence[Service], home: Path, *, policy: RestartPolicy = _POLICY, stop_s: float = STOP_S
) -> bool:
    """Run the services of a home until SIGTERM or SIGINT; SIGHUP: try again what was given up.

    stop_s: how many seconds servers have to end after they were asked. Returns False at once, with nothing done, if
    another process does so already. Call it in a process of its own, from its main thread.
    """
    home.mkdir(parents=True, exist_ok=True)
    with _alone(home) as alone:
        if alone:
            _Supervisor(services, home, policy, stop_s).run()
    return alone


def end_left_behind(home: Path, grace_s: float = STOP_S) -> list[str]:
    """End what a supervisor of this home left when it was killed; the names of those servers. None if one lives."""
    if read(home) is None:
        return []
    with _alone(home) as alone:
        return _end_left_behind(home, grace_s) if alone else []


@contextmanager
def _alone(home: Path) -> Iterator[bool]:
    """Whether nobody else keeps the servers of this home; nobody else begins to while this is held."""
    with (home / "supervisor.lock").open("wb") as lock:
        until = time.monotonic() + _STARTING_S
        while not (alone := _locked(lock)) and not _lives(home) and time.monotonic() < until:
            time.sleep(0.02)
        yield alone


def _locked(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lives(home: Path) -> bool:
    """Whether the supervisor that wrote the state of this home last is there."""
    known = read(home)
    return known is not None and processes.alive(known.supervisor)


def _end_left_behind(home: Path, grace_s: float) -> list[str]:
    known = read(home)
    if known is None:
        return []
    led = {
        server.process.pid: server.name
        for server in known.servers
        if server.process is not None and processes.left_behind(server.process)
    }
    names = [name for pid, name in led.items() if processes.members({pid})]
    processes.end(led, grace_s)
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
        self._servers = {service.name: Server(service, home, policy, _say) for service in services}
        self._me = processes.identity(os.getpid())
        self._written: Servers | None = None
        self._stopping = False
        self._again = False

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        for name in _end_left_behind(self._home, self._stop_s):
            _say(f"{name}: what an earlier supervisor left was ended")
        try:
            while not self._stopping:
                self._turn()
                time.sleep(_TURN_S)
        finally:
            self._stop()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._again = True
        else:
            self._stopping = True

    def _turn(self) -> None:
        again, self._again = self._again, False
        for server in self._servers.values():
            if again:
                server.try_again()
            before = server.service.after
            server.look(may_start=not before or self._servers[before].state.state in {"done", "running"})
            self._note()

    def _stop(self) -> None:
        """Those that nobody calls first: what they run reports to the others."""
        quiet = [server for server in self._servers.values() if not server.service.health]
        _end(quiet, self._stop_s)
        self._note()
        _end((server for server in self._servers.values() if server.service.health), self._stop_s)
        self._note()

    def _note(self) -> None:
        state = Servers(supervisor=self._me, servers=tuple(server.state for server in self._servers.values()))
        if state != self._written:
            write(self._home, state)
            self._written = state


def _end(servers: Iterable[Server], grace_s: float) -> None:
    ending = list(servers)
    processes.end([server.session for server in ending if server.session is not None], grace_s)
    for server in ending:
        server.stopped()


def _say(what: str) -> None:
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {what}", file=sys.stderr, flush=True)  # noqa: T201 - its log
