"""The watch as a process: the scheduler's end of its socket, and its own. It lives as long as a run is active.

One byte asks for a scan, one answers whether a run is active. A scan costs little; importing Airflow for it takes
seconds of a core.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

_LIMIT_S = 120.0
_ORPHAN_S = 5.0
"""How often the watch checks that its scheduler lives. The scheduler's forks keep the socket open after its death."""
_SCAN = b"?"
_ACTIVE, _IDLE = b"+", b"-"
_COMMAND = (sys.executable, "-m", "ratchet_airflow.watch.scan")


class WatchProcess:
    """The watch from the scheduler's side. The first scan starts it, and the next one after its death."""

    def __init__(self, environment: Mapping[str, str], command: Sequence[str] = _COMMAND) -> None:
        self._environment, self._command = environment, command
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def scan(self) -> bool:
        """Ask for a scan. Whether a run is active. Raises OSError if the watch dies or does not answer in time."""
        try:
            connection = self._socket
            if connection is None or self._process is None or self._process.poll() is not None:
                connection = self._start()
            connection.sendall(_SCAN)
            answer = connection.recv(1)
        except OSError:
            self.end()
            raise
        if not answer:
            self.end()
            raise ConnectionError("it ended before it answered")
        return answer == _ACTIVE

    def end(self) -> None:
        """End the process, which frees the memory that Airflow takes."""
        if self._process is None or self._socket is None:
            return
        self._socket.close()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # it has nothing to save
        self._process.wait()
        self._process = self._socket = None

    def _start(self) -> socket.socket:
        self.end()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                self._command, env=dict(self._environment), stdin=theirs.fileno(), process_group=0
            )
        ours.settimeout(_LIMIT_S)
        self._socket = ours
        return ours


def serve(scan: Callable[[], bool]) -> None:
    """The watch's own side: scan whenever standard input asks, until the scheduler is gone."""
    scheduler = os.getppid()
    with socket.socket(fileno=os.dup(0)) as connection:
        connection.settimeout(_ORPHAN_S)
        while os.getppid() == scheduler:
            try:
                asked = connection.recv(1)
            except TimeoutError:
                continue
            if not asked:
                break
            connection.sendall(_ACTIVE if scan() else _IDLE)
    os._exit(0)  # at once: a normal exit of Airflow takes a second
