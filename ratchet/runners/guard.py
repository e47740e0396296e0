"""The first program of a stage's process: it makes the process end with its parent and leave no core file.

Run as a plain file (`python -I -S guard.py PARENT COMMAND...`), before Ratchet is imported. It then becomes COMMAND.
"""

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(arguments: list[str]) -> None:
    """Set the limits and become the command. If the parent is gone already, SIGTERM comes at once."""
    parent, command = int(arguments[0]), arguments[1:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold the secrets, and gigabytes
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)
    os.execvp(command[0], command)  # noqa: S606 - this is its purpose; the command is the runner's


if __name__ == "__main__":
    main(sys.argv[1:])
