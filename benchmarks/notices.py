"""notices: whether a notice to stop ever gets lost between the engine and a job, beside two busy loops.

Each of many containers gets one notice at a random moment of its first second. A job that receives it saves its work
and ends with 75; one that has not begun ends with 143. A job that still runs after some seconds has not received it:
the notice is lost.
"""

import random
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from benchmarks.measure import Result
from ratchet.contracts.labels import Label
from ratchet.runners.choice import stage_image
from ratchet.runners.docker import DockerRunner
from ratchet.runners.job import Job

SAVES = """if 1:
    import os, signal
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.sigwait({signal.SIGTERM})
    os._exit(75)
"""
"""Waits for the notice in the only way that cannot miss one that comes between a look and a sleep."""
_AT_ONCE = 4
_BUSY = 2
_LATEST_S = 1.0
_PATIENCE_S = 20.0


def run(*, full: bool) -> Result:
    """A thousand notices for --full, else a hundred."""
    count = 1000 if full else 100
    ended = Counter(notices(count, stage_image(gpu=False)))
    lost = ended[None]
    return Result(
        name="notices",
        ratio=lost,
        goal=0,
        unit="notices lost",
        ours=lost,
        peer=count,
        peer_name="notices sent",
        rows=(
            ("saved (75)", str(ended[75])),
            ("had not begun (143)", str(ended[143])),
            ("lost", str(lost)),
            *((f"ended with {code}", str(times)) for code, times in ended.items() if code not in {75, 143, None}),
        ),
    )


def notices(count: int, image: str) -> list[int | None]:
    """The exit code after each of so many notices; None for a job that did not end."""
    labels = {Label.TEST: "1", Label.TEST_ID: uuid.uuid4().hex}
    command = ("python", "-I", "-S", "-c", SAVES)
    job = Job(name="notice", request=b"", image=image, command=command, labels=labels)
    with _busy(), ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda seed: _notice(job, random.Random(seed)), range(count)))


def _notice(job: Job, chance: random.Random) -> int | None:
    runner = DockerRunner()
    handle = runner.submit(job)
    try:
        time.sleep(chance.uniform(0, _LATEST_S) ** 2)  # most of them early, where a process is not ready yet
        runner.notify(handle)
        return runner.wait(handle, _PATIENCE_S).exit_code
    finally:
        runner.remove(handle)


@contextmanager
def _busy() -> Iterator[None]:
    """Programs that take all of the processor."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(_BUSY)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
