"""The processes of servers: each in its session, found by number and start time, and ended with all its children.

The children of a server are in its session, in any process group; a process that left the session is not touched.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

import psutil

from local.supervision.service import Service
from local.supervision.state import Identity
from ratchet.contracts.errors import ConfigurationError

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
LONGEST_LOG = 20 << 20
"""Bytes of a server's log, of which as many stay once more."""
_SAME_BIRTH_S = 1.0
"""A correction of the clock shifts the start time that the system reports."""


def launch(service: Service, folder: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start a server in `folder`. It gets SIGTERM when the process that called this dies. Raises OSError."""
    parent = os.getpid()
    libc = ctypes.CDLL(None, use_errno=True)

    def die_with_parent() -> None:
        if sys.platform == "linux":
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(128 + signal.SIGTERM)

    with log.open("ab") as out:
        return subprocess.Popen(
            service.command,
            env=dict(service.environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - the supervisor has one thread
        )


def keep_short(log: Path) -> None:
    """Move what is in a long log into the file beside it, in place of what was moved before.

    Its server goes on, since it writes at the end of the file. A line that it writes in this moment may be lost.
    """
    with contextlib.suppress(OSError):
        if log.stat().st_size >= LONGEST_LOG:
            shutil.copyfile(log, log.with_name(f"{log.name}.1"))
            os.truncate(log, 0)


def identity(pid: int) -> Identity:
    """The identity of a living process. Raises psutil.NoSuchProcess."""
    return Identity(pid=pid, born=psutil.Process(pid).create_time())


def environment(who: Identity) -> dict[str, str]:
    """The environment that a process was started with. Raises ConfigurationError if another user has started it."""
    try:
        return psutil.Process(who.pid).environ()
    except psutil.AccessDenied as error:
        raise ConfigurationError("another user has started the servers", remedy="type it as that user") from error


def is_alive(who: Identity) -> bool:
    """Whether this process is alive, and not only a later one with its number."""
    try:
        return _is_same(who) and psutil.Process(who.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether a child has ended. Does not reap it, so that no other process gets its number yet."""
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def owns_session(who: Identity) -> bool:
    """Whether `who`, dead or alive, led the session of this number, and not a later process."""
    try:
        return _is_same(who)
    except psutil.NoSuchProcess:
        return True  # the kernel does not reuse the number of a session that exists


def end(sessions: Collection[int], grace_s: float) -> None:
    """End every process of these sessions: SIGTERM, and SIGKILL after `grace_s` seconds; with 0 SIGKILL at once."""
    if not sessions:
        return
    if grace_s > 0:
        _send(members(sessions), signal.SIGTERM)
    until = time.monotonic() + grace_s
    while members(sessions) and time.monotonic() < until:
        time.sleep(0.05)
    while left := members(sessions):  # in a loop, since one of them may just have started another
        _send(left, signal.SIGKILL)
        time.sleep(0.02)


def members(sessions: Collection[int]) -> list[int]:
    """The numbers of the living processes of some sessions."""
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            if os.getsid(pid) in sessions and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
    return found


def _send(pids: Collection[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _is_same(who: Identity) -> bool:
    """Whether the process of that number is this one, dead or alive. Raises psutil.NoSuchProcess."""
    return bool(abs(psutil.Process(who.pid).create_time() - who.born) < _SAME_BIRTH_S)
