"""First thing in a stage's process: dies with whoever started it, leaves no core file; then becomes the stage.

Run as a plain file (`python -I -S guard.py PARENT COMMAND...`), before anything of ours is imported.
"""

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(arguments: list[str]) -> None:
    """Arm the guard and turn into the command. A parent that is gone already means SIGTERM at once."""
    parent, command = int(arguments[0]), arguments[1:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold the secrets, and gigabytes
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)
    os.execvp(command[0], command)  # noqa: S606 - the whole purpose; the command is the runner's own


if __name__ == "__main__":
    main(sys.argv[1:])
