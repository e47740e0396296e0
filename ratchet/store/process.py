"""The process that holds something, so that another process of the same host can see at once that it has died."""

import os
import socket
from functools import cache
from pathlib import Path
from typing import Self

from pydantic import Field

from ratchet.contracts.document import Document

_STATE, _STARTED = 0, 19
"""Places in /proc/PID/stat after the name, which is in parentheses and may hold spaces; see proc(5)."""


class Process(Document):
    """A process, and where its number means something: a host since its last start, and a namespace of numbers."""

    host: str
    pid: int
    started: int = Field(description="Clock ticks since the host's start; a later process of this number has another.")

    @classmethod
    def current(cls) -> Self | None:
        """This process; None where the system does not say what names it."""
        host, stat = _host(), _stat(os.getpid())
        return cls(host=host, pid=os.getpid(), started=int(stat[_STARTED])) if host and stat else None

    def is_dead(self) -> bool:
        """Whether it has surely ended. False where only its own host can say."""
        if self.host != _host():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass  # it belongs to another user
        stat = _stat(self.pid)
        return stat is not None and (stat[_STATE] in {"Z", "X"} or int(stat[_STARTED]) != self.started)


@cache
def _host() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{socket.gethostname()} {boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _stat(pid: int) -> list[str] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
