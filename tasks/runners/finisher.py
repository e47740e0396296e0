"""The end of a container, seen to by a small process of its own, whoever asked for it may be gone.

Run as `python -m tasks.runners.finisher HANDLE GRACE_S`.
"""

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import tasks
from tasks.contracts.errors import ConfigurationError, Unavailable

OVERTIME_S = 60
"""Seconds past the grace that the process may live, for an engine that is slow."""


def finish_later(handle: str, grace_s: float) -> None:
    """Return at once, and have the container told to stop, killed if it is still there after `grace_s`, and removed.

    For containers only. The process is in a session of its own, shares no open file with the caller, and is nobody's
    child: it goes on when the caller is killed. It reaches the engine that the caller's environment names.
    """
    command = (sys.executable, "-P", "-m", "tasks.runners.finisher", handle, f"{grace_s}")
    code = str(Path(tasks.__path__[0]).parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [code, os.environ.get("PYTHONPATH")]))}
    subprocess.run(  # noqa: S603 - a shell that only goes to the background; the words are its arguments
        ("/bin/sh", "-c", '"$@" &', "finisher", *command),
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=environment,
        check=True,
    )


def finish(handle: str, grace_s: float) -> None:
    """Tell the container to stop, wait for its end, at most `grace_s` seconds, and remove it. Quiet if it is gone."""
    from tasks.runners.docker import DockerRunner  # noqa: PLC0415 - the clock and the alarm start before

    runner, deadline = DockerRunner(), time.monotonic() + grace_s
    with contextlib.suppress(ConfigurationError):  # it is gone
        with contextlib.suppress(Unavailable):
            runner.notify(handle)
        while (left := deadline - time.monotonic()) > 0:
            try:
                if not runner.wait(handle, left).running:
                    break
            except Unavailable:
                time.sleep(min(1.0, left))
    while True:
        try:
            return runner.remove(handle)
        except Unavailable:
            time.sleep(1)  # the alarm ends this


def main(arguments: list[str]) -> None:
    """Finish one container, and be gone after its grace and a minute, whatever happens."""
    handle, grace_s = arguments[0], float(arguments[1])
    signal.alarm(math.ceil(grace_s) + OVERTIME_S)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    finish(handle, grace_s)


if __name__ == "__main__":
    main(sys.argv[1:])
