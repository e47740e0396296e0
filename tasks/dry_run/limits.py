"""The limits of a process that runs a pipeline's own code for a check. Linux enforces them all, other systems a few."""

import ctypes
import faulthandler
import os
import resource
import signal
import sys
from typing import TextIO

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # linux/sched.h
_LARGEST_FILE = 64 << 20


def restrict(*, memory: int, parent: int) -> None:
    """Limit this process, which has one thread yet: its memory in bytes, its files, no core file, and no network.

    Where the kernel gives no network of its own, the process keeps that of its parent. It ends with its parent.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST_FILE, _LARGEST_FILE))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    if sys.platform != "linux":
        return
    kernel = ctypes.CDLL(None, use_errno=True)
    kernel.unshare(_NEW_USER | _NEW_NETWORK)
    kernel.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # after the new user, which clears it
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def end_after(seconds: float, trace: TextIO) -> None:
    """End this process after so many seconds, with the lines that its threads are at in the file."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=trace)
