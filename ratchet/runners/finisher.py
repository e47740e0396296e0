"""The end of a container: notice, grace, removal, and patience with an engine that is away."""

import contextlib
import time

from ratchet.contracts.errors import JobGone, Unavailable
from ratchet.runners.docker import DockerRunner


def finish(handle: str, grace_s: float) -> None:
    """Tell the container to stop, wait for its end, at most `grace_s` seconds, and remove it. Quiet if it is gone."""
    runner, deadline = DockerRunner(), time.monotonic() + grace_s
    with contextlib.suppress(JobGone):
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
