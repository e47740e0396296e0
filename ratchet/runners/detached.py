"""The end of a container whose task was stopped, from a process that outlives the task.

Run as `python -m ratchet.runners.detached CONTAINER GRACE_S STORE LEASE HOLDER`.

A change here violates the promise of the project when a container is stopped that another attempt has taken over.
"""

import math
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

from ratchet.checkout import ROOT
from ratchet.contracts.errors import JobGone, Unavailable

OVERTIME_S = 60
"""Seconds past the grace that the process may live, for an engine that is slow."""
_MODULE = "ratchet.runners.detached"
_PAUSE_S = 1.0


def end_later(handle: str, grace_s: float, *, store: str, lease: str, holder: str) -> None:
    """Start a process that ends a container, and return at once.

    The process sends SIGTERM, and after `grace_s` seconds SIGKILL, and removes the container; it does nothing if
    another holder has the lease by then. It is in a session of its own, shares no open file with the caller and is not
    its child, so it goes on when the caller is killed. The caller itself asks neither the engine nor the store: a
    signal's handler may call this, in the middle of another request to them.
    """
    command = (sys.executable, "-P", "-m", _MODULE, handle, f"{grace_s}", store, lease, holder)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    subprocess.run(
        ("/bin/sh", "-c", '"$@" &', "detached", *command),
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=environment,
        check=True,
    )


def end_container(handle: str, grace_s: float) -> None:
    """SIGTERM, at most `grace_s` seconds for the container to end, then remove it. Quiet if it is gone.

    The notice is sent again every few seconds: one that arrives before the container's first program is ready is lost.
    While the engine does not answer, it is asked again without limit: the process's alarm ends that.
    """
    from ratchet.runners.docker import DockerRunner
    from ratchet.runners.runner import NOTICE_AGAIN_S

    runner, deadline = DockerRunner(), time.monotonic() + grace_s
    with suppress(JobGone):
        while (left := deadline - time.monotonic()) > 0:
            try:
                runner.notify(handle)
                if not runner.wait(handle, min(left, NOTICE_AGAIN_S)).running:
                    break
            except Unavailable:
                time.sleep(min(_PAUSE_S, left))
    while True:
        try:
            return runner.remove(handle)
        except Unavailable:
            time.sleep(_PAUSE_S)


def main(arguments: list[str]) -> None:
    """End one container, unless another attempt has taken it over."""
    handle, grace, store, lease, holder = arguments
    _ignore_signals(float(grace))
    from ratchet.store.ending import mark_ending
    from ratchet.store.opening import open_store

    with suppress(Unavailable):  # a container that nobody may follow any more is worse than one that was stopped
        if not mark_ending(open_store(store), lease, holder):
            return
    end_container(handle, float(grace))
    with suppress(Unavailable):  # so that another host need not wait for this one
        mark_ending(open_store(store), lease, holder, ended=True)


def _ignore_signals(grace_s: float) -> None:
    """Let this process go on when it is asked to stop. An alarm ends it after the grace and OVERTIME_S."""
    signal.alarm(math.ceil(grace_s) + OVERTIME_S)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    main(sys.argv[1:])
