"""Both ends of the line between the scheduler and the watch, a process that stays while there is something to watch.

One byte asks for a look, one answers whether a run goes on. A look costs little; importing Airflow for it takes seconds
of a core.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

_LIMIT_S = 120.0
_ALONE_S = 5.0
"""How often the watch sees whether whoever started it still lives. What a scheduler forks holds the line open."""
_LOOK = b"?"
_GOES_ON, _AT_REST = b"+", b"-"
_WATCH = (sys.executable, "-m", "ratchet_airflow.watch.scan")


class Watcher:
    """The watch, as the scheduler has it: started with the first look, and with the next after it died."""

    def __init__(self, environment: Mapping[str, str], command: Sequence[str] = _WATCH) -> None:
        self._environment, self._command = environment, command
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None

    def look(self) -> bool:
        """Have it tell whatever is due. Whether a run goes on. Raises OSError if it dies or does not answer in time."""
        try:
            line = self._line
            if line is None or self._process is None or self._process.poll() is not None:
                line = self._start()
            line.sendall(_LOOK)
            answer = line.recv(1)
        except OSError:
            self.end()
            raise
        if not answer:
            self.end()
            raise ConnectionError("it ended before it had answered")
        return answer == _GOES_ON

    def end(self) -> None:
        """Let it go, and with it the memory that Airflow takes."""
        if self._process is None or self._line is None:
            return
        self._line.close()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # it keeps nothing that would have to be saved
        self._process.wait()
        self._process = self._line = None

    def _start(self) -> socket.socket:
        self.end()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                self._command, env=dict(self._environment), stdin=theirs.fileno(), process_group=0
            )
        ours.settimeout(_LIMIT_S)
        self._line = ours
        return ours


def answer(look: Callable[[], bool]) -> None:
    """Be the watch: look whenever standard input asks, until whoever asked is gone."""
    asker = os.getppid()
    with socket.socket(fileno=os.dup(0)) as line:
        line.settimeout(_ALONE_S)
        while os.getppid() == asker:
            try:
                asked = line.recv(1)
            except TimeoutError:
                continue
            if not asked:
                break
            line.sendall(_GOES_ON if look() else _AT_REST)
    os._exit(0)  # at once: taking Airflow apart takes a second
