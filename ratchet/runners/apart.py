"""A process that goes on by itself, whatever becomes of the one that started it."""

import math
import os
import signal
import subprocess
import sys

from ratchet.checkout import ROOT

OVERTIME_S = 60
"""Seconds past the grace that the process may live, for an engine that is slow."""


def start_apart(module: str, *words: str) -> None:
    """Return at once, with a module of ours started as a process that nobody waits for.

    It is in a session of its own, shares no open file with the caller, and is nobody's child: it goes on when the
    caller is killed. Its environment is the caller's.
    """
    command = (sys.executable, "-P", "-m", module, *words)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    subprocess.run(
        ("/bin/sh", "-c", '"$@" &', "finisher", *command),
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=environment,
        check=True,
    )


def undisturbed(grace_s: float) -> None:
    """Let this process go on whatever it is told, and be gone after a grace and a minute, whatever happens."""
    signal.alarm(math.ceil(grace_s) + OVERTIME_S)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
